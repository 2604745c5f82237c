"""Tiny random models of every family, saved as real ones are: what sets a family apart is on."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from hetrl_runtime.tiny.tokenizer import make_tokenizer

_SIZES = {
    # No size is a multiple of another by accident, and the vocabulary has no even half.
    "vocab_size": 151,
    "hidden_size": 32,
    "intermediate_size": 44,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
    "bos_token_id": None,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
_GEMMA = {"head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 5}

MODELS: dict[str, dict[str, Any]] = {
    "llama": {"attention_bias": True, "mlp_bias": True},
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {"head_dim": 16, "tie_word_embeddings": True},
    "mistral": {"sliding_window": None, "head_dim": 16},
    "mistral, window": {"sliding_window": 5},
    "phi3": {"tie_word_embeddings": False, "partial_rotary_factor": 0.5},
    "phi3, window": {"sliding_window": 5},
    "gemma2": {**_GEMMA, "final_logit_softcapping": 5.0, "attn_logit_softcapping": 10.0},
    "gemma3_text": {**_GEMMA, "layer_types": ["sliding_attention", "full_attention"] * 2},
    "olmo2": {"tie_word_embeddings": False},
    "glm4": {"head_dim": 16, "partial_rotary_factor": 0.5},
    "granite": {
        "logits_scaling": 8.0,
        "embedding_multiplier": 12.0,
        "residual_multiplier": 0.22,
        "attention_multiplier": 0.05,
    },
    "smollm3": {"no_rope_layers": [1, 0, 1]},
    "qwen2, window": {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
}
"""By name, which begins with the ``model_type``: what is not as in ``_SIZES``."""
MODELS["gemma3_text"]["layer_types"] = ["sliding_attention", "full_attention", "sliding_attention"]


def config_of(name: str, **changes: Any) -> Any:
    options = {**_SIZES, **MODELS[name], **changes}
    return AutoConfig.for_model(name.split(",", maxsplit=1)[0], **options)


def save_family(name: str, folder: Path, **changes: Any) -> Path:
    """Write a model whose every weight is drawn at random, its norms and biases too."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config_of(name, **changes), dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    make_tokenizer(max_tokens=256).save_pretrained(folder)
    return folder
