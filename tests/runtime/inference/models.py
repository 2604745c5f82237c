"""Tiny reward models with random weights, saved the way real ones are."""

from pathlib import Path

import torch
from transformers import Qwen3Config, Qwen3ForSequenceClassification

from hetrl_runtime.tiny.tokenizer import make_tokenizer


def save_reward_model(
    folder: Path, *, num_labels: int = 1, template: str = "", pads_with_end: bool = False
) -> Path:
    """Write a tiny reward model with random weights."""
    tokenizer = make_tokenizer(max_tokens=512)
    tokenizer.chat_template = template or None
    if pads_with_end:
        tokenizer.pad_token = tokenizer.eos_token
    torch.manual_seed(3)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=512,
        num_labels=num_labels,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.3,
    )
    Qwen3ForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
