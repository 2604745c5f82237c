"""Precision of layers, by device and model."""

import pytest
import torch

from hetrl_runtime.compute import precision

SERVED, TRAINED = precision.LEAST_SERVED_SIZE, precision.LEAST_TRAINED_SIZE
ROWS = precision.MOST_READ_ROWS


@pytest.mark.parametrize(
    ("device", "hidden_size", "rows", "capabilities", "expected"),
    [
        ("cuda", SERVED - 1, ROWS + 1, set(), torch.bfloat16),
        ("cpu", SERVED, ROWS + 1, {"amx_bf16", "avx512_bf16"}, torch.bfloat16),
        ("cpu", SERVED - 1, ROWS, {"amx_bf16", "avx512_bf16"}, torch.float32),
        ("cpu", SERVED, ROWS, {"avx512_bf16"}, torch.bfloat16),
        ("cpu", SERVED, ROWS + 1, {"avx512_bf16"}, torch.float32),
        ("cpu", SERVED, ROWS, {"avx2"}, torch.float32),
    ],
)
def test_served_layers_compute_in_bfloat16_where_that_is_faster(
    *,
    device: str,
    hidden_size: int,
    rows: int,
    capabilities: set[str],
    expected: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(capabilities, True))

    found = precision.of_served_layers(torch.device(device), hidden_size, rows=rows)

    assert found is expected


@pytest.mark.parametrize(
    ("device", "hidden_size", "multiplies", "expected"),
    [
        ("cuda", TRAINED, True, False),
        ("cpu", TRAINED, True, True),
        ("cpu", TRAINED - 1, True, False),
        ("cpu", TRAINED, False, False),
    ],
)
def test_cpu_training_uses_bfloat16_for_products_only(
    device: str, hidden_size: int, multiplies: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "cpu_multiplies_bfloat16", lambda: multiplies)

    assert precision.halves_products(torch.device(device), hidden_size) is expected


def test_layers_in_training_are_bfloat16_on_a_gpu_only() -> None:
    assert precision.of_trained_layers(torch.device("cuda")) is torch.bfloat16
    assert precision.of_trained_layers(torch.device("cpu")) is torch.float32


INTEL, AMD = {"cpu_name": "Intel(R) Xeon(R) Processor"}, {"cpu_name": "AMD EPYC"}


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        (INTEL | {"avx512_bf16": True, "amx_bf16": False}, False),
        (INTEL | {"avx512_bf16": True, "amx_bf16": True}, True),
        (AMD | {"avx512_bf16": True, "amx_bf16": False}, True),
        (AMD | {"avx512_bf16": False, "avx2": True}, False),
        ({"avx512_bf16": True}, False),
        ({}, False),
    ],
)
def test_cpu_multiplies_bfloat16_with_its_units_or_amd_vectors(
    capabilities: dict[str, object], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)

    assert precision.cpu_multiplies_bfloat16() is expected
