"""Optimizer steps that were skipped because a number was not finite, and when the run ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import NOT_FINITE, Ending

MAX_STEPS = 3
"""Versions in a row with a skipped step after which a run ends. One is a bad batch, and two may be
its groups, as a batch can be cut between them. Batches are drawn apart, so three have a cause that
stays: with one bad batch in ten, three follow each other once in a thousand versions."""

_MAX_NAMED = 8


class Source(StrEnum):
    """The numbers of a step, in the order in which they follow from each other."""

    REWARD = "reward"
    ADVANTAGE = "advantage"
    LOSS = "loss"
    GRADIENT = "gradient"
    WEIGHTS = "weights"


_REMEDIES = {
    Source.REWARD: "check what data.reward returns",
    Source.ADVANTAGE: "check data.reward: rewards of this size have no advantages in float32",
    Source.LOSS: "check data.reward, and lower training.learningRate",
    Source.GRADIENT: "check data.reward, and lower training.learningRate",
    Source.WEIGHTS: "lower training.learningRate; float16 weights hold at most 65504",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """One optimizer step that no process made."""

    source: Source
    """The first number that was not finite."""

    rows: tuple[int, ...] = ()
    """Of the batch: those with that number, or those of the minibatch."""


def named(skipped: Skipped, ids: Sequence[TrajectoryId]) -> str:
    """Name the trajectories of a skipped step, the first few of many; ``ids`` are the batch's."""
    first = ", ".join(str(ids[row]) for row in skipped.rows[:_MAX_NAMED])
    more = len(skipped.rows) - _MAX_NAMED
    return f"{first} and {more} more" if more > 0 else first


class NotFiniteWatch:
    """A count of versions in a row with a skipped step."""

    def __init__(self, *, num_steps: int) -> None:
        """Watch ``num_steps`` versions. A run all of whose steps were skipped has not succeeded."""
        self._max_steps = min(MAX_STEPS, num_steps)
        self._bad_steps = 0

    @property
    def is_alarmed(self) -> bool:
        """Whether the last version had a skipped step: what may be wrong must not be kept."""
        return self._bad_steps > 0

    def see(
        self, skipped: Sequence[Skipped], *, version: int, ids: Sequence[TrajectoryId]
    ) -> Ending | None:
        """Take in what ``version`` skipped; return how the run ends where it must not go on."""
        self._bad_steps = self._bad_steps + 1 if skipped else 0
        if not skipped:
            return None
        last = skipped[-1]
        if last.source is Source.WEIGHTS:
            what = f"weights were not finite after the step of version {version}"
        elif self._bad_steps >= self._max_steps:
            what = (
                f"a step was not finite in {self._bad_steps} versions in a row, the last of "
                f"version {version} by its {last.source}, with {named(last, ids)}"
            )
        else:
            return None
        message = f"{what}; nothing of it is published or kept: {_REMEDIES[last.source]}"
        return Ending(reason=NOT_FINITE, message=message)
