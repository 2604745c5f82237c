"""Leases of trajectories: their holders and expiry times.

Heartbeats that name a lease extend it. Nothing here reads a clock: callers pass ``now``, in
seconds of any steady clock.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hetrl_runtime.wire.trajectory import TrajectoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One trajectory leased to one worker."""

    process: str
    worker_version: int
    """Of the worker's weights when it took the lease: no token can be older."""

    expires_at: float


class Leases:
    """All trajectories under lease."""

    def __init__(self, *, lease_seconds: float) -> None:
        self._lease_seconds = lease_seconds
        self._leases: dict[TrajectoryId, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, identity: TrajectoryId) -> bool:
        return identity in self._leases

    def holder(self, identity: TrajectoryId) -> str:
        """Return the worker that has a trajectory, or an empty string."""
        lease = self._leases.get(identity)
        return lease.process if lease else ""

    def by_worker(self) -> dict[tuple[str, int], list[TrajectoryId]]:
        """Return the trajectories leased to each worker and version of its weights."""
        leased: dict[tuple[str, int], list[TrajectoryId]] = {}
        for identity, lease in self._leases.items():
            leased.setdefault((lease.process, lease.worker_version), []).append(identity)
        return leased

    def grant(
        self, ids: Iterable[TrajectoryId], *, process: str, worker_version: int, now: float
    ) -> None:
        """Lease trajectories to a worker."""
        lease = Lease(
            process=process, worker_version=worker_version, expires_at=now + self._lease_seconds
        )
        self._leases.update(dict.fromkeys(ids, lease))

    def extend(self, ids: Iterable[TrajectoryId], *, process: str, now: float) -> None:
        """Extend those of the leases that are this worker's."""
        for identity in ids:
            lease = self._leases.get(identity)
            if lease and lease.process == process:
                self._leases[identity] = Lease(
                    process=process,
                    worker_version=lease.worker_version,
                    expires_at=now + self._lease_seconds,
                )

    def end(self, identity: TrajectoryId) -> bool:
        """End one lease; return whether there was one."""
        return self._leases.pop(identity, None) is not None

    def end_expired(self, *, now: float) -> tuple[TrajectoryId, ...]:
        """End expired leases; return their trajectories."""
        return self._end_where(lambda lease: lease.expires_at <= now)

    def end_of_process(self, process: str) -> tuple[TrajectoryId, ...]:
        """End the leases of a worker that is gone; return their trajectories."""
        return self._end_where(lambda lease: lease.process == process)

    def end_older_than(self, worker_version: int) -> tuple[TrajectoryId, ...]:
        """End leases of weights older than a version; return their trajectories."""
        return self._end_where(lambda lease: lease.worker_version < worker_version)

    def _end_where(self, applies: Callable[[Lease], bool]) -> tuple[TrajectoryId, ...]:
        ended = tuple(each for each, lease in self._leases.items() if applies(lease))
        for identity in ended:
            del self._leases[identity]
        return ended
