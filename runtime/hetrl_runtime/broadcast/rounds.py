"""Members and start of each round of a broadcast.

A collective needs all its members at once, but workers come when they hear of a version, and any
may fail the next moment. So a worker that wants weights attends, and a round begins when all those
of the round before are present, or when the first has waited long enough. This module only decides:
callers pass the time, and ``sender`` sends.
"""

from dataclasses import dataclass
from itertools import count

GATHER_SECONDS = 0.5
"""How long the first waits for others that may come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attendant:
    """A worker that wants weights."""

    process: str
    instance: str
    """New at every start of the process."""

    gpu: str = ""
    """Which it receives on; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One broadcast's members. The trainer has rank 0, the attendants follow in their order."""

    group: str
    """The same name: the same members as before, still connected."""

    attendants: tuple[Attendant, ...]
    over_nccl: bool

    @property
    def size(self) -> int:
        """Members, with the trainer."""
        return len(self.attendants) + 1


class Gathering:
    """The workers that wait for a round to begin, and the group of the last round."""

    def __init__(self, *, trainer: str, gpu: str) -> None:
        """Begin without members.

        Args:
            trainer: new at every start of the trainer: its groups are named after it.
            gpu: which it sends from; empty: none.
        """
        self._trainer = trainer
        self._gpu = gpu
        self._may_use_nccl = True
        self._here: dict[str, Attendant] = {}
        self._since = 0.0
        self._last: Round | None = None
        self._numbers = count(1)

    def enter(self, attendant: Attendant, *, now: float) -> None:
        """Take a worker in; a restarted worker replaces its former instance."""
        if not self._here:
            self._since = now
        self._here[attendant.process] = attendant

    def leave(self, attendant: Attendant) -> None:
        """Let go of a worker that waits no more."""
        if self._here.get(attendant.process) == attendant:
            del self._here[attendant.process]

    def seconds_left(self, *, now: float) -> float | None:
        """Return how long to wait for others; None if no worker waits."""
        if not self._here:
            return None
        if self._last and set(self._last.attendants) <= set(self._here.values()):
            return 0.0
        return max(0.0, self._since + GATHER_SECONDS - now)

    def begin(self) -> Round:
        """Begin a round of all who are here."""
        attendants = tuple(sorted(self._here.values(), key=lambda each: each.process))
        self._here.clear()
        if self._last is None or self._last.attendants != attendants:
            self._last = Round(
                group=f"{self._trainer}-{next(self._numbers)}",
                attendants=attendants,
                over_nccl=self._may_use_nccl and self._have_a_gpu_each(attendants),
            )
        return self._last

    def fail(self) -> None:
        """Drop the last round's group: the next round's members form a new one.

        After a failure over NCCL the next group uses gloo: such failures seldom go away.
        """
        if self._last and self._last.over_nccl:
            self._may_use_nccl = False
        self._last = None

    def _have_a_gpu_each(self, attendants: tuple[Attendant, ...]) -> bool:
        """Tell whether NCCL can join them: it refuses two members on one GPU."""
        gpus = [self._gpu, *(each.gpu for each in attendants)]
        return all(gpus) and len(set(gpus)) == len(gpus)
