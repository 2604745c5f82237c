"""Weights laid out for a CPU: the same products, and the same after an exchange."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from hetrl_runtime.compute import precision
from hetrl_runtime.rollout.engines.served_weights import (
    LaidOutLinear,
    ServedWeights,
    has_products,
)

TOKENS = torch.arange(3, 15).view(2, 6)
_SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.2,
}

DTYPES = pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        pytest.param(
            torch.bfloat16,
            marks=pytest.mark.skipif(
                not has_products(torch.bfloat16),
                reason="oneDNN multiplies bfloat16 on newer CPUs only",
            ),
        ),
    ],
    ids=["float32", "bfloat16"],
)
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 0.02}
"""Of a difference's norm, in norms of what is expected."""


@pytest.fixture
def _every_size_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "LEAST_SERVED_SIZE", 1)


def _qwen3(*, ties: bool = True) -> Any:
    return Qwen3ForCausalLM(Qwen3Config(**_SIZES, head_dim=16, tie_word_embeddings=ties))


def _qwen2() -> Any:
    """Qwen2's projections have biases."""
    model = Qwen2ForCausalLM(Qwen2Config(**_SIZES, tie_word_embeddings=False))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return model


MODELS = pytest.mark.parametrize(
    "make",
    [
        pytest.param(_qwen3, id="ends are one matrix"),
        pytest.param(lambda: _qwen3(ties=False), id="a head of its own"),
        pytest.param(_qwen2, id="projections with biases"),
    ],
)


def _served(make: Callable[[], Any], dtype: torch.dtype, seed: int) -> Any:
    torch.manual_seed(seed)
    return make().to(dtype).eval()


def _logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        found: torch.Tensor = model(TOKENS).logits
    return found.float()


def _is_close(found: torch.Tensor, expected: torch.Tensor, tolerance: float) -> bool:
    return bool((found - expected).norm() < tolerance * expected.norm())


@DTYPES
@MODELS
@pytest.mark.usefixtures("_every_size_is_wide")
def test_laid_out_layers_give_what_plain_ones_give(
    make: Callable[[], Any], dtype: torch.dtype
) -> None:
    model = _served(make, dtype, seed=1)
    expected = _logits(model)

    ServedWeights(model)

    assert sum(isinstance(each, LaidOutLinear) for each in model.modules()) == 2 * 7 + 1
    assert _is_close(_logits(model), expected, TOLERANCES[dtype])


@DTYPES
@MODELS
@pytest.mark.usefixtures("_every_size_is_wide")
def test_exchanged_model_equals_the_other_to_the_last_bit(
    make: Callable[[], Any], dtype: torch.dtype
) -> None:
    model, other = _served(make, dtype, seed=1), _served(make, dtype, seed=2)
    published = {name: each.float() for name, each in other.named_parameters()}
    weights = ServedWeights(model)
    before = _logits(model)

    prepared = weights.prepare(published)
    assert torch.equal(_logits(model), before), "preparing has touched what passes read"
    weights.exchange(prepared)

    ServedWeights(other)
    assert torch.equal(_logits(model), _logits(other))


@DTYPES
@MODELS
@pytest.mark.usefixtures("_every_size_is_wide")
def test_weight_file_is_checked_against_names_and_shapes(
    make: Callable[[], Any], dtype: torch.dtype
) -> None:
    model = _served(make, dtype, seed=1)
    shapes = {name: tuple(each.shape) for name, each in model.state_dict().items()}

    assert ServedWeights(model).shapes == shapes


def test_narrow_layers_in_float32_stay_as_they_are() -> None:
    model = _qwen3()

    ServedWeights(model)

    assert not any(isinstance(each, LaidOutLinear) for each in model.modules())
