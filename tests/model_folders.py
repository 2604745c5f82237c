"""Folders of models whose weights are holes: what a check reads of them is real."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetrl_core.model.family import Shape, family_of, sizes_of

TINY_QWEN3: dict[str, Any] = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 128,
    "max_position_embeddings": 2048,
}


def tensors_of(config: Mapping[str, Any]) -> dict[str, Shape]:
    return family_of(config).tensors(config, sizes_of(config, family_of(config)))


def write_model(
    folder: Path,
    config: Mapping[str, Any] = TINY_QWEN3,
    tensors: Mapping[str, Shape] | None = None,
    *,
    dtype: str = "BF16",
) -> Path:
    """Write a configuration, and weights: those that it asks for, or others."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_weights(
        folder / "model.safetensors",
        tensors_of(config) if tensors is None else tensors,
        dtype=dtype,
    )
    return folder


def write_weights(file: Path, tensors: Mapping[str, Shape], *, dtype: str = "BF16") -> None:
    header, end = {}, 0
    for name, shape in tensors.items():
        begin, size = end, 2
        for each in shape:
            size *= each
        end = begin + size
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with file.open("wb") as opened:
        opened.write(len(text).to_bytes(8, "little") + text)
        opened.truncate(8 + len(text) + end)
