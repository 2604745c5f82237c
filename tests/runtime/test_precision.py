"""What layers compute in, by device and model."""

import pytest
import torch

from hetrl_runtime import precision

WIDE, NARROW = precision.LEAST_HIDDEN_SIZE, precision.LEAST_HIDDEN_SIZE - 1


@pytest.mark.parametrize(
    ("device", "hidden_size", "multiplies", "expected"),
    [
        ("cuda", NARROW, False, torch.bfloat16),
        ("cpu", WIDE, True, torch.bfloat16),
        ("cpu", NARROW, True, torch.float32),
        ("cpu", WIDE, False, torch.float32),
    ],
)
def test_layers_compute_in_bfloat16_where_that_is_faster(
    device: str,
    hidden_size: int,
    multiplies: bool,
    expected: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(precision, "cpu_multiplies_bfloat16", lambda: multiplies)

    assert precision.of_layers(torch.device(device), hidden_size) is expected


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, True),
        ({"avx512_bf16": False, "amx_bf16": True}, True),
        ({"avx512_bf16": False, "avx2": True}, False),
        ({}, False),
    ],
)
def test_a_cpu_multiplies_bfloat16_if_it_has_instructions_for_it(
    capabilities: dict[str, bool], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)

    assert precision.cpu_multiplies_bfloat16() is expected
