"""The precision to compute in on a device: the smallest type that is faster and accurate enough.

Parameters in training are float32 everywhere, and so is whatever is summed over tokens.
"""

import torch

LEAST_SERVED_SIZE, LEAST_TRAINED_SIZE = 512, 128
"""Hidden sizes, on CPUs: in narrower models, conversions take longer than products save."""

MOST_READ_ROWS = 16
"""Of products on a CPU that take about as long as the reading of a wide matrix: half as many bytes
are read sooner, though vectors multiply them more slowly."""


def of_served_layers(device: torch.device, hidden_size: int, *, rows: int) -> torch.dtype:
    """Return bfloat16 on GPUs, and on CPUs that are faster so; else float32.

    ``rows`` go through a layer at a time: a token of each response that is decoded together, or
    those of whole texts.
    """
    if device.type == "cuda":
        return torch.bfloat16
    is_read = rows <= MOST_READ_ROWS and _cpu_can("avx512_bf16")
    is_faster = hidden_size >= LEAST_SERVED_SIZE and (is_read or cpu_multiplies_bfloat16())
    return torch.bfloat16 if is_faster else torch.float32


def of_trained_layers(device: torch.device) -> torch.dtype:
    """Return bfloat16 on GPUs, for autocast; on CPUs it would slow down all but products."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def halves_products(device: torch.device, hidden_size: int) -> bool:
    """Tell whether products of float32 layers in training are faster in bfloat16."""
    is_wide = hidden_size >= LEAST_TRAINED_SIZE
    return device.type == "cpu" and is_wide and cpu_multiplies_bfloat16()


def cpu_multiplies_bfloat16() -> bool:
    """Tell whether this CPU does so faster than float32: with units for it (AMX), or AMD's vectors.

    These take half as long as for float32, Intel's about twice as long.
    """
    return _cpu_can("amx_bf16") or (_cpu_can("avx512_bf16") and _is_amd())


def _cpu_can(capability: str) -> bool:
    return bool(torch.cpu.get_capabilities().get(capability))


def _is_amd() -> bool:
    return str(torch.cpu.get_capabilities().get("cpu_name")).startswith("AMD")
