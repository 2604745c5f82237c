"""Small models of the architectures that we train, with random weights, saved as real ones are."""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from hetrl_runtime.tiny.tokenizer import make_tokenizer

_TOKENIZER = make_tokenizer(max_tokens=256)
_COMMON = {
    "vocab_size": len(_TOKENIZER),
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": _TOKENIZER.eos_token_id,
    "pad_token_id": _TOKENIZER.pad_token_id,
}

ARCHITECTURES: dict[str, tuple[type, type, dict[str, Any]]] = {
    "Qwen2.5": (Qwen2Config, Qwen2ForCausalLM, {"rope_theta": 1e6}),
    "Qwen2.5, tied": (Qwen2Config, Qwen2ForCausalLM, {"tie_word_embeddings": True}),
    "Qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 16}),
    "Qwen3, tied": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 16, "tie_word_embeddings": True}),
    "Llama": (LlamaConfig, LlamaForCausalLM, {}),
    "Llama, scaled positions": (
        LlamaConfig,
        LlamaForCausalLM,
        {
            "rope_scaling": {
                "rope_type": "llama3",
                "rope_theta": 1e4,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            }
        },
    ),
}
"""By name: configuration, model, and what sets it apart; Llama 3.1 is the last."""


def make_random(name: str, *, seed: int = 0) -> Any:
    """Return a model whose every weight is drawn at random, its norms and biases too."""
    make_config, make_model, options = ARCHITECTURES[name]
    generator = torch.Generator().manual_seed(seed)
    model = make_model(make_config(**_COMMON, **options))
    with torch.no_grad():
        for parameter in model.parameters():
            centre = 1.0 if parameter.dim() == 1 else 0.0
            parameter.copy_(centre + 0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def save_random(
    name: str, folder: Path, *, seed: int = 0, dtype: torch.dtype = torch.float32
) -> Path:
    """Write such a model as a Hugging Face folder."""
    make_random(name, seed=seed).to(dtype).save_pretrained(folder)
    _TOKENIZER.save_pretrained(folder)
    return folder
