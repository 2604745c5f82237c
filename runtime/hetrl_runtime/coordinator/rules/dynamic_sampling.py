"""Dynamic sampling: groups without a learning signal, and the end of a run that has no others.

``ingest`` removes the groups that are left out.
"""

from collections.abc import Sequence

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import EQUAL_REWARDS
from hetrl_runtime.wire.values import NO_LEARNING_SIGNAL, Ending

SILENT_BATCHES = 10
"""Groups left out in a row, in batches, after which nothing is expected to be learned: as long as
the trainer waits where none is left out."""


class DynamicSampling:
    """A check of each whole group; without dynamic sampling in the job, every group passes."""

    def __init__(self, algorithm: AlgorithmSpec) -> None:
        self._is_asked = algorithm.dynamic_sampling
        self._most = SILENT_BATCHES * algorithm.global_batch_size // algorithm.group_size
        self._in_a_row = 0

    def leaves_out(self, members: Sequence[DeliveredTrajectory]) -> bool:
        """Tell whether a group's rewards are all equal; one without members is not whole yet."""
        if not self._is_asked or not members:
            return False
        rewards = [each.reward for each in members]
        is_silent = max(rewards) - min(rewards) <= EQUAL_REWARDS
        self._in_a_row = self._in_a_row + 1 if is_silent else 0
        return is_silent

    @property
    def ending(self) -> Ending | None:
        """How the run ends, once too many groups in a row were left out."""
        if self._in_a_row < self._most:
            return None
        return Ending(
            reason=NO_LEARNING_SIGNAL,
            message=f"rewards did not vary within any of {self._in_a_row} groups in a row: check "
            "data.reward, the prompts and data.maxResponseTokens",
        )
