"""The critic's loss: what clipping holds, and where gradients go."""

import math

import pytest
import torch

from hetrl_runtime.trainer.losses.value_loss import clipped_value_loss, explained_variance


@pytest.mark.parametrize(
    ("value", "loss", "slope"),
    [
        pytest.param(0.1, 0.5 * 0.9**2, -0.9, id="within reach"),
        pytest.param(0.6, 0.5 * 0.8**2, 0.0, id="so far ahead that the held one sets the loss"),
        pytest.param(-0.5, 0.5 * 1.5**2, -1.5, id="gone the wrong way, free to come back"),
        pytest.param(2.0, 0.5 * 1.0**2, 1.0, id="beyond the return by more than the held one"),
    ],
)
def test_clipping_by_how_far_a_value_went(value, loss, slope):
    values = torch.tensor([[value]], requires_grad=True)

    found = clipped_value_loss(
        values,
        old_BR=torch.zeros(1, 1),
        returns_BR=torch.ones(1, 1),
        mask_BR=torch.ones(1, 1, dtype=torch.bool),
        clip=0.2,
    )
    torch.autograd.backward(found.losses_BR.sum())

    assert found.losses_BR.item() == pytest.approx(loss)
    assert values.grad.item() == pytest.approx(slope)
    assert found.is_clipped_BR.item() is (slope == 0.0)


def test_padding_is_never_read_even_if_not_a_number():
    mask = torch.tensor([[True, False, False]])
    values = torch.tensor([[0.5, math.nan, math.inf]], requires_grad=True)
    others = torch.tensor([[0.4, math.inf, math.nan]])

    found = clipped_value_loss(values, old_BR=others, returns_BR=others, mask_BR=mask, clip=0.2)
    torch.autograd.backward(found.losses_BR.sum())

    assert found.losses_BR[0].tolist() == pytest.approx([0.005, 0, 0])
    assert values.grad[0].tolist() == pytest.approx([0.1, 0, 0])


@pytest.mark.parametrize(
    ("values", "share"),
    [
        pytest.param([1.0, 3.0, 5.0], 1.0, id="right everywhere"),
        pytest.param([2.0, 4.0, 6.0], 1.0, id="off by the same everywhere"),
        pytest.param([7.0, 7.0, 7.0], 0.0, id="the same of everything"),
        pytest.param([2.0, 3.0, 4.0], 0.75, id="half of every difference"),
        pytest.param([5.0, 3.0, 1.0], -3.0, id="the wrong way around"),
    ],
)
def test_explained_variance_tells_good_critics_from_bad(values, share):
    found = explained_variance(
        torch.tensor([[*values, math.nan]]),
        returns_BR=torch.tensor([[1.0, 3.0, 5.0, math.nan]]),
        mask_BR=torch.tensor([[True, True, True, False]]),
    )

    assert found == pytest.approx(share)


def test_equal_returns_leave_nothing_to_explain():
    said = torch.tensor([[0.1, 0.9]])
    mask = torch.ones(1, 2, dtype=torch.bool)

    assert explained_variance(said, returns_BR=torch.ones(1, 2), mask_BR=mask) == 0
