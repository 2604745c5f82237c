"""Linear layers that multiply in bfloat16, beside plain ones."""

import pytest
import torch
from torch import nn

from hetrl_runtime.trainer.linear import HalfProductLinear, multiply_in_bfloat16
from hetrl_runtime.trainer.parallel.value_stage import ValueHead

TWO_ROUNDINGS = 2 * 2**-8
"""To bfloat16: of the outputs, and of what flows back from them."""


@pytest.mark.parametrize("has_bias", [False, True])
def test_outputs_and_gradients_are_float32_and_those_of_a_plain_layer(has_bias: bool) -> None:
    torch.manual_seed(1)
    layer, inputs = nn.Linear(64, 32, bias=has_bias), torch.randn(5, 64, requires_grad=True)
    parameters = [inputs, *layer.parameters()]

    def outputs_and_gradients() -> list[torch.Tensor]:
        outputs = layer(inputs)
        return [outputs, *torch.autograd.grad(outputs.square().sum(), parameters)]

    expected = outputs_and_gradients()
    multiply_in_bfloat16(layer)
    found = outputs_and_gradients()

    for one, other in zip(found, expected, strict=True):
        assert one.dtype is torch.float32
        assert (one - other).norm() / other.norm() < TWO_ROUNDINGS
        assert not torch.equal(one, other)


def test_only_plain_layers_change_and_parameters_stay_the_same_objects() -> None:
    model = nn.ModuleDict(
        {"plain": nn.Linear(4, 4), "head": ValueHead(4, 1), "norm": nn.RMSNorm(4)}
    )
    before = dict(model.named_parameters())

    multiply_in_bfloat16(model)

    assert [type(each) for each in model.values()] == [HalfProductLinear, ValueHead, nn.RMSNorm]
    after = dict(model.named_parameters())
    assert all(after[name] is parameter for name, parameter in before.items())
