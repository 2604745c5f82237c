"""Counts of leased and accepted trajectories at a version, under the staleness bound.

``hetrl_core.staleness`` computes capacity and the strict check. This module keeps the counts for
it, and remembers results that hold for a whole version.
"""

import sys
from collections import Counter
from collections.abc import Sequence

from hetrl_core.staleness import Ledger, StalenessBound, staleness
from hetrl_planner.simulator.events.trajectory import LeaseEnd, Trajectory
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
        # Each version has consumed one batch and promises one more, so the room for buffered and
        # running trajectories is equal at all versions, and computed only once.
        self._room = self._bound.capacity(
            Ledger(version=0, accepted=0, running=0),
            worker_version=0,
            batch_size=pipeline.batch_size,
            max_concurrent=sys.maxsize,
        )
        self._is_too_old: dict[tuple[int, int], bool] = {}
        self.version = 0
        self.leased: dict[Trajectory, Replica] = {}
        """The replica of each lease, oldest first."""
        self.accepted: dict[Trajectory, Replica] = {}
        """The replica of each trajectory not consumed yet, those in training included."""
        self.num_granted = 0
        self.endings: Counter[LeaseEnd] = Counter()

    # The staleness bound

    def capacity(self) -> int:
        """Return the trajectories that may be leased now under the newest weights."""
        return self.capacity_of(self.version)

    def capacity_of(self, version: int) -> int:
        """Return the trajectories that may be leased now under weights of a version."""
        running = len(self.leased)
        capacity = self._room - len(self.accepted) - running
        if version != self.version:
            # Weights newer than the version are those of a history that was lost.
            behind = self.version - version
            capacity = capacity - behind * self._batch_size if behind > 0 else 0
        # Calls of ``min`` and ``max`` here would take four hundredths of each event.
        if capacity > (free := self._max_concurrent - running):
            capacity = free
        return capacity if capacity > 0 else 0  # noqa: FURB136

    def age(self, versions: tuple[int, int]) -> int:
        """Return the staleness of what was sampled by an oldest and a newest version."""
        return staleness(versions, version=self.version)

    def is_too_old(self, versions: tuple[int, int]) -> bool:
        """Make the strict check, if the pipeline has one."""
        try:
            return self._is_too_old[versions]
        except KeyError:
            is_too_old = self._checks and not self._bound.admits(self.age(versions))
        self._is_too_old[versions] = is_too_old
        return is_too_old

    def stale(self) -> list[Trajectory]:
        """Return the accepted trajectories that fail the strict check now."""
        sampled = {each.versions for each in self.accepted}
        stale = {versions for versions in sampled if self.is_too_old(versions)}
        return [each for each in self.accepted if each.versions in stale] if stale else []

    def outdated(self) -> list[Trajectory]:
        """Return the running trajectories whose initial weights may start nothing any more."""
        versions = {
            version
            for version in {each.lease_version for each in self.leased}
            if not self._bound.admits(self.version - version)
        }
        return [each for each in self.leased if each.lease_version in versions] if versions else []

    # Events

    def move_to(self, version: int) -> None:
        """Move to another version."""
        self.version = version
        self._is_too_old.clear()

    def lease(self, trajectory: Trajectory, replica: Replica) -> None:
        """Start a lease."""
        self.num_granted += 1
        self.leased[trajectory] = replica

    def end_lease(self, trajectory: Trajectory, ending: LeaseEnd) -> Replica:
        """End a running lease; return its replica."""
        self.endings[ending] += 1
        return self.leased.pop(trajectory)

    def accept(self, trajectory: Trajectory) -> None:
        """Move a trajectory from its lease to the accepted ones."""
        self.accepted[trajectory] = self.leased.pop(trajectory)

    def end_accepted(self, trajectories: Sequence[Trajectory], ending: LeaseEnd) -> int:
        """End accepted trajectories, in training or not; return their tokens."""
        for trajectory in trajectories:
            del self.accepted[trajectory]
        self.endings[ending] += len(trajectories)
        return sum(each.num_tokens for each in trajectories)
