"""Groups without a learning signal: which are left out, and when a run ends for them."""

import pytest

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_runtime.coordinator.rules.dynamic_sampling import SILENT_BATCHES, DynamicSampling
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.values import NO_LEARNING_SIGNAL
from tests.runtime.trajectories import a_trajectory, delivered


def a_check(*, is_asked: bool = True) -> DynamicSampling:
    return DynamicSampling(
        AlgorithmSpec(group_size=2, global_batch_size=4, dynamic_sampling=is_asked)
    )


def group(*rewards: float) -> tuple[DeliveredTrajectory, ...]:
    return tuple(
        delivered(a_trajectory(0, number, reward=reward)) for number, reward in enumerate(rewards)
    )


@pytest.mark.parametrize(
    ("is_asked", "rewards", "is_left_out"),
    [
        pytest.param(True, (1.0, 0.0), False, id="rewards vary"),
        pytest.param(True, (1.0, 1.0), True, id="rewards are equal"),
        pytest.param(True, (), False, id="a group that is not whole"),
        pytest.param(False, (1.0, 1.0), False, id="a job without dynamic sampling"),
    ],
)
def test_group_of_equal_rewards_is_left_out(
    *, is_asked: bool, rewards: tuple[float, ...], is_left_out: bool
) -> None:
    assert a_check(is_asked=is_asked).leaves_out(group(*rewards)) is is_left_out


def test_run_ends_when_batches_in_a_row_were_left_out() -> None:
    check = a_check()
    most = SILENT_BATCHES * 2

    for _ in range(most - 1):
        check.leaves_out(group(1.0, 1.0))
    assert check.ending is None
    check.leaves_out(group(0.0, 0.0))

    assert check.ending
    assert check.ending.reason == NO_LEARNING_SIGNAL
    assert f"any of {most} groups in a row" in check.ending.message


def test_group_with_a_signal_starts_the_count_again() -> None:
    check = a_check()

    for rewards in ((1.0, 1.0), (1.0, 0.0)):
        for _ in range(SILENT_BATCHES * 2 - 1):
            check.leaves_out(group(*rewards))
    check.leaves_out(group(1.0, 1.0))

    assert check.ending is None
