"""A delivered trajectory between worker and trainer: a few figures, and the encoded message.

The coordinator's rules need a few numbers of it. The rest is neither unpacked nor packed again on
its way to the journal and to the trainer. ``validation`` checks it.
"""

from collections.abc import Mapping
from typing import NamedTuple

from hetrl_runtime.wire.trajectory import TrajectoryId


class DeliveredTrajectory(NamedTuple):
    """The coordinator's view of a trajectory; ``codec.decode_trajectory`` reads the rest."""

    id: TrajectoryId
    epoch: int
    """The fencing epoch of the lease that asked for it."""

    process: str
    reward: float
    reward_parts: Mapping[str, float]
    """What it is made of, by name; empty where the job has one reward."""

    oldest_version: int
    """Of the sampled tokens: what staleness is counted from."""

    newest_version: int
    num_response_tokens: int
    num_tool_calls: int
    has_reference: bool
    """Whether the reference's log-probabilities came with it."""

    data: bytes
    """The message ``Trajectory``, as its worker wrote it."""

    @property
    def group(self) -> int:
        """Counts prompts from the first of the first pass over the data."""
        return self.id.group

    @property
    def member(self) -> int:
        """Which of the group's trajectories it is."""
        return self.id.member
