"""What layers compute in on a device: as few bits as it multiplies faster and models bear.

Parameters in training are float32 everywhere, and so is whatever is summed over tokens.
"""

import torch

LEAST_HIDDEN_SIZE = 512
"""On CPUs: in narrower models, conversions take longer than products save."""


def of_layers(device: torch.device, hidden_size: int) -> torch.dtype:
    """Return bfloat16 on GPUs, and for wide models on CPUs that multiply it; else float32."""
    if device.type == "cuda":
        return torch.bfloat16
    is_faster = hidden_size >= LEAST_HIDDEN_SIZE and cpu_multiplies_bfloat16()
    return torch.bfloat16 if is_faster else torch.float32


def cpu_multiplies_bfloat16() -> bool:
    """Tell whether this CPU has instructions for it; others compute it slower than float32."""
    found = torch.cpu.get_capabilities()
    return any(found.get(each) for each in ("avx512_bf16", "amx_bf16"))
