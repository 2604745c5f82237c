"""Groups that are started and not done, and the place of each member.

Every member is in exactly one place::

    start ──▶ pending ──▶ leased ──▶ buffered ──▶ closed
                 ▲           │           │
                 └───────────┴───────────┘  it is generated again

A member that was not judged is buffered as an empty place.
``state`` decides which way a member goes.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from hetrl_runtime.coordinator.rules.buffer import Buffer
from hetrl_runtime.coordinator.rules.leases import Leases
from hetrl_runtime.coordinator.rules.ledger import GroupLedger
from hetrl_runtime.coordinator.rules.pending import Pending
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import ResumePoint


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLease:
    """Members of one group for one worker."""

    group: int
    members: tuple[int, ...]

    @property
    def ids(self) -> tuple[TrajectoryId, ...]:
        """The leased trajectories."""
        return tuple(TrajectoryId(self.group, member) for member in self.members)


class OpenGroups:
    """Members of started groups: pending, leased or buffered."""

    def __init__(
        self,
        point: ResumePoint,
        *,
        group_size: int,
        lease_seconds: float,
        is_left_out: Callable[[int], bool],
    ) -> None:
        self.ledger = GroupLedger(point)
        self.leases = Leases(lease_seconds=lease_seconds)
        self.buffer = Buffer(group_size=group_size)
        self.pending = Pending()
        self.failures: Counter[int] = Counter()
        """Failed tries of each group."""

        self._group_size = group_size
        self._is_left_out = is_left_out

    def is_settled(self, identity: TrajectoryId) -> bool:
        """Tell whether a trajectory is buffered, or its group done."""
        return identity in self.buffer or not self.ledger.is_open(identity.group)

    def may_deliver(self, identity: TrajectoryId, process: str) -> bool:
        """Tell whether a trajectory waits for any worker, or for this one."""
        return identity in self.pending or self.leases.holder(identity) == process

    def lease(
        self, count: int, *, process: str, worker_version: int, now: float
    ) -> tuple[GroupLease, ...]:
        """Lease members to a worker: those of started groups first, then of new ones."""
        ids: list[TrajectoryId] = []
        while len(ids) < count:
            if not self.pending:
                self._start(self._upcoming())
            ids += self.pending.take(count - len(ids))
        self.leases.grant(ids, process=process, worker_version=worker_version, now=now)
        return tuple(
            GroupLease(group=group, members=tuple(each.member for each in members))
            for group, members in groupby(sorted(ids), key=lambda each: each.group)
        )

    def restore_lease(
        self, identity: TrajectoryId, *, process: str, worker_version: int, now: float
    ) -> None:
        """Repeat a lease that was given before, unless there is nothing left to generate."""
        if self.is_settled(identity):
            return
        self._start(identity.group)
        self.pending.discard(identity)
        self.leases.grant((identity,), process=process, worker_version=worker_version, now=now)

    def accept(self, trajectory: DeliveredTrajectory) -> None:
        """Move a trajectory to the buffer, from wherever it is; start its group if need be."""
        self._take(trajectory.id)
        self.buffer.add(trajectory)

    def accept_unjudged(self, identity: TrajectoryId) -> None:
        """Move a member without a reward to the buffer, as an empty place."""
        self._take(identity)
        self.buffer.add_unjudged(identity)

    def make_again(self, ids: Iterable[TrajectoryId]) -> tuple[TrajectoryId, ...]:
        """Return trajectories to pending, which are not buffered any more; return their ids."""
        returned = tuple(ids)
        for identity in returned:
            self.leases.end(identity)
            self.pending.add(identity)
        return returned

    def discard(self, identity: TrajectoryId) -> None:
        """Drop a buffered trajectory, to be generated again; one that is not buffered stays."""
        if self.buffer.remove(identity):
            self.make_again([identity])

    def fail(self, identity: TrajectoryId) -> None:
        """Count a failed try of a trajectory, and return it to pending."""
        self.failures[identity.group] += 1
        self.make_again([identity])

    def close(self, group: int) -> None:
        """End a group: nothing of it is generated or kept any more."""
        self.ledger.close(group)
        self.buffer.remove_group(group)
        self.failures.pop(group, None)
        for member in range(self._group_size):
            self.leases.end(TrajectoryId(group, member))
            self.pending.discard(TrajectoryId(group, member))

    def _upcoming(self) -> int:
        """Return the next group to start; those whose prompt is left out are done unseen."""
        while self._is_left_out(group := self.ledger.upcoming()):
            self.ledger.close(group)
        return group

    def _take(self, identity: TrajectoryId) -> None:
        self._start(identity.group)
        self.leases.end(identity)
        self.pending.discard(identity)

    def _start(self, group: int) -> None:
        if group in self.ledger.started:
            return
        self.ledger.start(group)
        for member in range(self._group_size):
            self.pending.add(TrajectoryId(group, member))
