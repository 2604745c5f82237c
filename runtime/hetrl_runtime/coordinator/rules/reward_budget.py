"""The number of responses in a row that may come without a reward before a run ends.

A group does without a member that was not judged; ``ingest`` ends the run. The first responses of
a run show a reward that never works, so fewer are waited for.
"""

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_runtime.wire.trajectory import FailedTrajectory
from hetrl_runtime.wire.values import Ending

REWARD_FAILED = "RewardFailed"
FIRST_RESPONSES = 64
"""Responses of a run after which a reward that has judged none is not expected to work."""

UNJUDGED_BATCHES = 4
"""Responses in a row, in batches, after which a reward that once worked is not expected to."""


class RewardBudget:
    """A count of responses that were not judged since one was."""

    def __init__(self, algorithm: AlgorithmSpec, *, has_judged: bool = False) -> None:
        """Begin; ``has_judged`` says whether the run has trajectories with rewards already."""
        self._longest = max(FIRST_RESPONSES, UNJUDGED_BATCHES * algorithm.global_batch_size)
        self._has_judged = has_judged
        self._in_a_row = 0

    def renew(self) -> None:
        """Reset the count: a response was judged."""
        self._has_judged = True
        self._in_a_row = 0

    def unjudged(self, failed: FailedTrajectory) -> Ending | None:
        """Count a response without a reward; return the run's end when the budget is spent."""
        self._in_a_row += 1
        if self._in_a_row < (self._longest if self._has_judged else FIRST_RESPONSES):
            return None
        which = f"{self._in_a_row} responses in a row"
        if not self._has_judged:
            which = f"none of the first {self._in_a_row} responses"
        said = "were not judged" if self._has_judged else "was judged"
        return Ending(
            reason=REWARD_FAILED,
            message=f"{which} {said}, the last because: {failed.error}; correct data.reward, and "
            "try it with `hetrl reward`",
        )
