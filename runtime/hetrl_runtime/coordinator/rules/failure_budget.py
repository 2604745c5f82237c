"""The number of different prompts that generation may fail for before a run ends.

``state`` decides when a single prompt has failed; ``ingest`` ends the run.
"""

import logging

from hetrl_runtime.coordinator.rules.deadlines import ROLLOUT_FAILED
from hetrl_runtime.coordinator.rules.prompts import Prompts
from hetrl_runtime.wire.trajectory import FailedTrajectory
from hetrl_runtime.wire.values import Ending

log = logging.getLogger(__name__)

MOST_GIVEN_UP = 50
"""Different prompts given up in a row after which no prompt is expected to work."""


class FailureBudget:
    """A count of prompts given up since a trajectory was last accepted."""

    def __init__(self, prompts: Prompts) -> None:
        """Begin with the run's prompts; fewer than ``MOST_GIVEN_UP`` are each tried once."""
        self._prompts = prompts
        self._given_up_in_a_row: set[int] = set()

    def renew(self) -> None:
        """Reset the count: a prompt has been answered."""
        self._given_up_in_a_row.clear()

    def given_up(self, failed: FailedTrajectory) -> Ending | None:
        """Count a prompt that was given up; return the run's end when the budget is spent."""
        self._given_up_in_a_row.add(self._prompts.index(failed.group))
        line = self._prompts.of_group(failed.group).line
        log.warning("prompt given up: line=%d error=%s", line, failed.error)
        num_given_up = len(self._given_up_in_a_row)
        if num_given_up < min(MOST_GIVEN_UP, self._prompts.num_usable):
            return None
        return Ending(
            reason=ROLLOUT_FAILED,
            message=f"{num_given_up} prompts in a row could not be generated, "
            f"the last (line {line}) because: {failed.error}",
        )
