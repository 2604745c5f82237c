"""Models that a trainer computes and vLLM does not."""

from collections.abc import Mapping
from typing import Any


def vllm_obstacle(config: Mapping[str, Any]) -> str:
    """Return why vLLM cannot serve a model of this ``config.json``; empty if it can.

    It ends with an assertion for Qwen models whose windows are those of some layers only.
    """
    first, layers = config.get("max_window_layers"), config.get("num_hidden_layers")
    if not config.get("use_sliding_window") or first is None or layers is None or first >= layers:
        return ""
    return (
        f"config.json has use_sliding_window true and max_window_layers {first} of {layers} "
        "layers, and vLLM has no windows for some layers only; choose spec.runtime.engine "
        "transformers"
    )
