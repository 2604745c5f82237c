"""The end of a run whose reward judges nothing, with the reward's own last error."""

import pytest

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_runtime.coordinator.rules.reward_budget import (
    FIRST_RESPONSES,
    UNJUDGED_BATCHES,
    RewardBudget,
)
from hetrl_runtime.wire.trajectory import FailedTrajectory

BATCH = 32
FAILED = FailedTrajectory(
    group=0,
    member=0,
    epoch=1,
    process="rollout-0",
    error="the reward was not judged: FunctionRaised: KeyError: 'x'",
    unjudged="FunctionRaised",
)


@pytest.mark.parametrize(
    ("has_judged", "num_judged_before", "most", "said"),
    [
        (False, 0, FIRST_RESPONSES, f"none of the first {FIRST_RESPONSES} responses was judged"),
        (True, 0, UNJUDGED_BATCHES * BATCH, "128 responses in a row were not judged"),
        (False, 1, UNJUDGED_BATCHES * BATCH, "128 responses in a row were not judged"),
    ],
    ids=["a first series", "a series after a restart", "a series after a judged one"],
)
def test_series_of_unjudged_responses_ends_the_run(
    *, has_judged: bool, num_judged_before: int, most: int, said: str
) -> None:
    algorithm = AlgorithmSpec(group_size=4, global_batch_size=BATCH)
    budget = RewardBudget(algorithm, has_judged=has_judged)
    for _ in range(num_judged_before):
        budget.unjudged(FAILED)
        budget.renew()

    assert not any(budget.unjudged(FAILED) for _ in range(most - 1))
    ending = budget.unjudged(FAILED)

    assert ending
    assert ending.reason == "RewardFailed"
    assert ending.message.startswith(f"{said}, the last because: the reward was not judged")
    assert "KeyError: 'x'" in ending.message
