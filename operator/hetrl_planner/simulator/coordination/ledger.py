"""What is granted and what is accepted, at which version, and what the staleness bound says to it.

Capacity, leases and the strict check are answers of ``hetrl_core.staleness``; this keeps the
counts that it asks for, and remembers answers that hold for a whole version. Who is granted work
is leases's to decide, what is accepted the coordinator's.
"""

import sys
from collections import Counter
from collections.abc import Sequence

from hetrl_core.staleness import Ledger, StalenessBound, staleness
from hetrl_planner.simulator.events.trajectory import Ending, Trajectory
from hetrl_planner.simulator.pipeline.pipeline import NO_BOUND, Pipeline
from hetrl_planner.simulator.serving.replica import Replica


class RunLedger:
    """The accounts of one run. Every lease ends exactly once, as one ``Ending``."""

    def __init__(self, pipeline: Pipeline) -> None:
        eta = NO_BOUND if pipeline.max_staleness is None else pipeline.max_staleness
        self._bound = StalenessBound(max_staleness=eta)
        self._checks = pipeline.checks_consumption
        self._batch_size = pipeline.batch_size
        self._max_concurrent = max(1, pipeline.max_concurrent or pipeline.num_places)
        # Each version has consumed one batch and promises one more, so that the room for what
        # is buffered or running is the same at all versions, and asked for only once.
        self._room = self._bound.capacity(
            Ledger(version=0, accepted=0, running=0),
            worker_version=0,
            batch_size=pipeline.batch_size,
            max_concurrent=sys.maxsize,
        )
        self._is_too_old: dict[tuple[int, int], bool] = {}
        self.version = 0
        self.leased: dict[Trajectory, Replica] = {}
        """Who has which lease, oldest first."""
        self.accepted: dict[Trajectory, Replica] = {}
        """Not consumed yet, those in training included, and who generated them."""
        self.num_granted = 0
        self.endings: Counter[Ending] = Counter()

    # What the bound says

    def capacity(self) -> int:
        """Return how many trajectories may be granted now, to whoever has the newest weights."""
        return self.capacity_of(self.version)

    def capacity_of(self, version: int) -> int:
        """Return how many may be granted now to who has weights of a version."""
        running = len(self.leased)
        capacity = self._room - len(self.accepted) - running
        if version != self.version:
            # Weights newer than the version are those of a history that was lost.
            behind = self.version - version
            capacity = capacity - behind * self._batch_size if behind > 0 else 0
        # Asked at each event, of which calls of ``min`` and ``max`` would take four hundredths.
        if capacity > (free := self._max_concurrent - running):
            capacity = free
        return capacity if capacity > 0 else 0  # noqa: FURB136

    def age(self, versions: tuple[int, int]) -> int:
        """Return the staleness of what was sampled by an oldest and a newest version."""
        return staleness(versions, version=self.version)

    def is_too_old(self, versions: tuple[int, int]) -> bool:
        """Make the strict check, where the pipeline has one."""
        try:
            return self._is_too_old[versions]
        except KeyError:
            is_too_old = self._checks and not self._bound.admits(self.age(versions))
        self._is_too_old[versions] = is_too_old
        return is_too_old

    def stale(self) -> list[Trajectory]:
        """Return what was accepted and fails the strict check now."""
        sampled = {each.versions for each in self.accepted}
        stale = {versions for versions in sampled if self.is_too_old(versions)}
        return [each for each in self.accepted if each.versions in stale] if stale else []

    def outdated(self) -> list[Trajectory]:
        """Return what runs that was begun under weights that may start nothing any more."""
        versions = {
            version
            for version in {each.lease_version for each in self.leased}
            if not self._bound.admits(self.version - version)
        }
        return [each for each in self.leased if each.lease_version in versions] if versions else []

    # What happens

    def move_to(self, version: int) -> None:
        """Go on with another version."""
        self.version = version
        self._is_too_old.clear()

    def lease(self, trajectory: Trajectory, replica: Replica) -> None:
        """Begin a lease."""
        self.num_granted += 1
        self.leased[trajectory] = replica

    def end_lease(self, trajectory: Trajectory, ending: Ending) -> Replica:
        """End a running lease; return who had it."""
        self.endings[ending] += 1
        return self.leased.pop(trajectory)

    def accept(self, trajectory: Trajectory) -> None:
        """Let what was generated under a lease wait for training."""
        self.accepted[trajectory] = self.leased.pop(trajectory)

    def end_accepted(self, trajectories: Sequence[Trajectory], ending: Ending) -> int:
        """End what was accepted, in training or not; return its tokens."""
        for trajectory in trajectories:
            del self.accepted[trajectory]
        self.endings[ending] += len(trajectories)
        return sum(each.num_tokens for each in trajectories)
