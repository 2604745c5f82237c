"""Layers of our own for CPUs, beside the library's."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from transformers import Olmo2Config, Olmo2ForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from hetrl_runtime.trainer.layers.cpu_layers import HalfProductLinear, Norm, fit
from hetrl_runtime.trainer.parallel.value_stage import ValueHead
from tests.runtime.trainer.architectures import ARCHITECTURES, make_random

ROUNDING = 2**-8
"""To bfloat16."""


def outputs_and_gradients(layer: nn.Module, inputs: Tensor) -> list[Tensor]:
    """Of a sum whose every term is another."""
    outputs = layer(inputs)
    weights = torch.linspace(-1, 1, outputs.numel()).view_as(outputs)
    return [outputs, *torch.autograd.grad((outputs * weights).sum(), [inputs, *layer.parameters()])]


def apart(one: Tensor, other: Tensor) -> float:
    """Share of the length."""
    return float((one.detach().float() - other.detach()).norm() / other.detach().norm())


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("reads", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("gives", [torch.float32, torch.bfloat16])
def test_linear_layer_multiplies_as_a_plain_one_to_roundings(
    has_bias: bool, reads: torch.dtype, gives: torch.dtype
) -> None:
    torch.manual_seed(1)
    plain, inputs = nn.Linear(64, 32, bias=has_bias), torch.randn(5, 64, requires_grad=True)
    expected = outputs_and_gradients(plain, inputs)

    half = HalfProductLinear(64, 32, bias=has_bias)
    half.load_state_dict(plain.state_dict())
    half.gives = gives
    given = inputs.detach().to(reads).requires_grad_()
    found = outputs_and_gradients(half, given)

    assert [each.dtype for each in found] == [
        gives,
        reads,
        *(torch.float32 for _ in half.parameters()),
    ]
    for one, other in zip(found, expected, strict=True):
        assert 0 < apart(one, other) < 2 * ROUNDING


@pytest.mark.parametrize("shape", [(7, 48), (1, 9, 48), (1, 9, 4, 16)])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_norm_is_the_librarys_and_so_are_its_gradients(shape: tuple[int, ...], size: float) -> None:
    torch.manual_seed(1)
    librarys, inputs = LlamaRMSNorm(shape[-1]), (size * torch.randn(shape)).requires_grad_()
    librarys.weight.data.uniform_(0.5, 2)
    expected = outputs_and_gradients(librarys, inputs)

    librarys.__class__ = Norm
    found = outputs_and_gradients(librarys, inputs)

    for one, other in zip(found, expected, strict=True):
        assert one.dtype is torch.float32
        assert apart(one, other) < 2e-6


def test_norms_gradient_is_that_of_finite_differences() -> None:
    torch.manual_seed(1)
    norm = LlamaRMSNorm(6).double()
    norm.weight.data.uniform_(0.5, 2)
    norm.__class__ = Norm
    inputs = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(
        lambda *given: functional_call(norm, {"weight": given[1]}, given[0]), (inputs, norm.weight)
    )


def test_norm_before_products_rounds_output_and_sums_in_float32() -> None:
    torch.manual_seed(1)
    norm, inputs = LlamaRMSNorm(48), torch.randn(9, 48, requires_grad=True)
    expected = outputs_and_gradients(norm, inputs)

    norm.__class__ = Norm
    norm.gives = torch.bfloat16
    found = outputs_and_gradients(norm, inputs)

    assert [each.dtype for each in found] == [torch.bfloat16, torch.float32, torch.float32]
    for one, other in zip(found, expected, strict=True):
        assert 0 < apart(one, other) < ROUNDING


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_known_model_computes_what_it_computed_before(name: str) -> None:
    model = make_random(name)
    tokens = torch.randint(0, model.config.vocab_size, (2, 11))

    def logits_and_gradients() -> list[Tensor]:
        logits = model(tokens).logits
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(logits.square().mean(), parameters)
        return [logits, torch.cat([each.flatten() for each in gradients])]

    expected = logits_and_gradients()
    parameters = dict(model.named_parameters())
    fit(model, halves_products=False)
    exact = logits_and_gradients()
    fit(model, halves_products=True)
    rounded = logits_and_gradients()

    assert max(map(apart, exact, expected)) < 1e-6
    assert 1e-4 < max(map(apart, rounded, expected)) < 8 * ROUNDING
    assert all(each.dtype is torch.float32 for each in rounded)
    after = dict(model.named_parameters())
    assert all(after[each] is parameter for each, parameter in parameters.items())


def test_inputs_of_sums_stay_float32() -> None:
    model = make_random("Qwen3")

    fit(model, halves_products=True)

    layer: Any = model.model.layers[0]
    assert {
        name
        for name, each in layer.named_modules()
        if getattr(each, "gives", None) == torch.bfloat16
    } == {"input_layernorm", "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj"}
    assert model.model.norm.gives is None
    assert model.lm_head.gives is torch.float32


def test_unknown_architecture_keeps_its_own_norms_and_heads() -> None:
    model = Olmo2ForCausalLM(
        Olmo2Config(
            vocab_size=16,
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            pad_token_id=None,
        )
    )
    model.lm_head = ValueHead(8, 1)
    before = {name: type(each) for name, each in model.named_modules()}

    fit(model, halves_products=True)

    after = {name: type(each) for name, each in model.named_modules()}
    changed = {name for name in after if after[name] is not before[name]}
    assert changed == {name for name, kind in before.items() if kind is nn.Linear}
    assert all(getattr(each, "gives", torch.float32) is torch.float32 for each in model.modules())
