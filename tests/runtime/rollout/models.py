"""Tiny models with random weights, saved the way real ones are."""

from pathlib import Path

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from hetrl_runtime.tiny.tokenizer import make_tokenizer

EOS = 1


def save_tiny_qwen3(folder: Path, *, seed: int = 0, hidden_size: int = 64) -> Path:
    """Write a two-layer Qwen3 with a tokenizer of single characters; return the folder."""
    tokenizer = make_tokenizer(max_tokens=2048)
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        intermediate_size=2 * hidden_size,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=EOS,
        bos_token_id=None,
        pad_token_id=0,
        initializer_range=0.3,  # sharp enough that greedy choices and weight changes show
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_two_versions(factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Write two such models, as versions 0 and 1 of a policy; return their folders."""
    return {
        version: save_tiny_qwen3(factory.mktemp(f"v{version}"), seed=version)
        for version in range(2)
    }


def weights_of(folder: Path) -> bytes:
    """Return a model's weights as a trainer publishes them."""
    return (folder / "model.safetensors").read_bytes()
