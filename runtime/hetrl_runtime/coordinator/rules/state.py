"""The rules of one run: leases of prompts, acceptance of trajectories, batches.

Events in, decisions out; no clock, socket or file. Every member of a started group is in
exactly one place::

    start ──▶ pending ──▶ leased ──▶ buffered ──▶ handed out ──▶ committed
                 ▲           │           │
                 └───────────┴───────────┘  expired, failed, or too old: it is generated again

and together they never exceed what the bound promises, ``(η + 1)·B`` beyond the committed
versions. Pending members go first, and B is a multiple of the group size: room for one member
of a new group is room for all of it, so half-made groups cannot lock each other out.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_core.staleness import Ledger, StalenessBound
from hetrl_runtime.coordinator.rules.buffer import Buffer
from hetrl_runtime.coordinator.rules.leases import Leases
from hetrl_runtime.coordinator.rules.ledger import GroupLedger
from hetrl_runtime.coordinator.rules.pending import Pending
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import FailedTrajectory, TrajectoryId
from hetrl_runtime.wire.values import Outcome, ResumePoint

MAX_FAILURES = 3
"""Failed tries of a group's members after which its prompt is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLease:
    """Members of one group for one worker."""

    group: int
    members: tuple[int, ...]

    @property
    def ids(self) -> tuple[TrajectoryId, ...]:
        """The leased trajectories."""
        return tuple(TrajectoryId(self.group, member) for member in self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerBehind:
    """No lease: what the worker would begin now would be too old for its batch."""

    needs_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A version is done; what came of it."""

    resume: ResumePoint
    consumed: tuple[DeliveredTrajectory, ...]
    dropped_stale: int
    """Of the buffered: too old for the new version."""

    withdrawn: int
    """Leased trajectories that began with weights too old for the new version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRefused:
    """A commit that does not continue this history, and why."""

    reason: str


class RunState:
    """The state of one run, between a trainer's registration and the last version."""

    def __init__(
        self,
        algorithm: AlgorithmSpec,
        *,
        max_concurrent: int,
        lease_seconds: float,
        checks_consumption: bool = True,
    ) -> None:
        """Start with nothing; ``begin`` comes first.

        ``checks_consumption=False`` leaves out the strict check, for a test that shows what
        it is for: then only admission's rate limit holds, and late trajectories slip through.
        """
        self.epoch = 0
        self.needs_reference = False
        """Whether only trajectories with the reference's words are accepted."""

        self._bound = StalenessBound(max_staleness=algorithm.max_staleness)
        self._batch_size = algorithm.global_batch_size
        self._group_size = algorithm.group_size
        self._max_concurrent = max_concurrent
        self._checks_consumption = checks_consumption
        self._ledger = GroupLedger(ResumePoint())
        self._leases = Leases(lease_seconds=lease_seconds)
        self._lease_seconds = lease_seconds
        self._buffer = Buffer(group_size=algorithm.group_size)
        self._pending = Pending()
        self._handed: tuple[DeliveredTrajectory, ...] = ()
        self._failures: Counter[int] = Counter()

    # What can be asked

    @property
    def version(self) -> int:
        """The version being trained."""
        return self._ledger.version

    @property
    def num_running(self) -> int:
        """Trajectories under lease."""
        return len(self._leases)

    @property
    def num_buffered(self) -> int:
        """Trajectories that are accepted and not consumed, those handed out included."""
        return len(self._buffer)

    @property
    def num_pending(self) -> int:
        """Trajectories of started groups that wait for a worker."""
        return len(self._pending)

    @property
    def num_ready(self) -> int:
        """Trajectories in whole groups that the next batch may use."""
        return self._buffer.num_ready(version=self.version)

    @property
    def capacity(self) -> int:
        """Trajectories that may be leased now to workers with the newest weights."""
        return self._capacity_of(self.version)

    def resume_point(self) -> ResumePoint:
        """Return where the run would go on from the last commit."""
        return self._ledger.resume_point()

    def buffered(self) -> tuple[DeliveredTrajectory, ...]:
        """Return all accepted trajectories that are not consumed."""
        return tuple(self._buffer)

    def leased(self) -> dict[tuple[str, int], list[TrajectoryId]]:
        """Return the trajectories leased to each worker and version of its weights."""
        return self._leases.by_worker()

    # What the trainer does

    def begin(self, point: ResumePoint, *, epoch: int, needs_reference: bool = False) -> int:
        """Go on from a trainer's resume point under a new epoch; return what was lost with it.

        Accepted trajectories stay where the surviving history has sampled them and has not
        consumed them, and where they have what this trainer needs. All leases are revoked
        and granted again later.
        """
        before = self.buffered()
        self.epoch = epoch
        self.needs_reference = needs_reference
        self._ledger = GroupLedger(point)
        self._leases = Leases(lease_seconds=self._lease_seconds)
        self._buffer = Buffer(group_size=self._group_size)
        self._pending = Pending()
        self._handed = ()
        self._failures.clear()
        for trajectory in before:
            if trajectory.newest_version <= point.version and not self._is_unscored(trajectory):
                self.readmit(trajectory)
        return len(before) - len(self._buffer)

    def readmit(self, trajectory: DeliveredTrajectory) -> None:
        """Put back a trajectory that was accepted before, unless its group is done."""
        if not self._ledger.is_open(trajectory.group) or trajectory.id in self._buffer:
            return
        self._start_group(trajectory.group)
        self._pending.discard(trajectory.id)
        self._leases.end(trajectory.id)
        self._buffer.add(trajectory)

    def batch(self) -> tuple[DeliveredTrajectory, ...]:
        """Return the batch that the current version trains on; empty when it is not full.

        This is the strict check: whatever is too old is dropped here, and made again.
        """
        # Asked after every delivery: the cheap question first.
        if not self._handed and self._buffer.num_in_whole_groups >= self._batch_size:
            self._drop_stale()
            self._handed = self._buffer.oldest_batch(self._batch_size, version=self.version)
        return self._handed

    def commit(
        self,
        version: int,
        *,
        consumed: Sequence[TrajectoryId],
        discarded: Sequence[TrajectoryId] = (),
    ) -> Committed | CommitRefused:
        """Move to the next version.

        Groups with a consumed member are done; groups discarded whole are made again.
        """
        if version == self.version:
            return self._already_committed()
        if reason := self._objection(version, consumed=consumed, discarded=discarded):
            return CommitRefused(reason=reason)
        by_id = {each.id: each for each in self._buffer}
        trained = tuple(by_id[each] for each in consumed if each in by_id)
        for group in {each.group for each in consumed}:
            self._close(group)
        for identity in discarded:
            if self._buffer.remove(identity):
                self._pending.add(identity)
        self._ledger.version = version
        self._handed = ()
        return Committed(
            resume=self.resume_point(),
            consumed=trained,
            dropped_stale=self._drop_stale(),
            withdrawn=self._withdraw_outdated(),
        )

    # What workers do

    def lease(
        self, process: str, *, worker_version: int, max_trajectories: int, now: float
    ) -> tuple[GroupLease, ...] | WorkerBehind:
        """Lease as much as the worker asks for and the bound allows, unfinished groups first."""
        capacity = self._capacity_of(worker_version)
        if not capacity and self.capacity:
            oldest = self._bound.oldest_useful_version(self._counts(), batch_size=self._batch_size)
            return WorkerBehind(needs_version=oldest)
        wanted = min(max_trajectories, capacity)
        ids: list[TrajectoryId] = []
        while len(ids) < wanted:
            if not self._pending:
                self._start_group(self._ledger.upcoming())
            ids += self._pending.take(wanted - len(ids))
        self._leases.grant(ids, process=process, worker_version=worker_version, now=now)
        return tuple(
            GroupLease(group=group, members=tuple(each.member for each in members))
            for group, members in groupby(sorted(ids), key=lambda each: each.group)
        )

    def restore_leases(
        self, process: str, ids: Iterable[TrajectoryId], *, worker_version: int, now: float
    ) -> None:
        """Repeat a lease that was given before, as a journal says."""
        for identity in ids:
            if self._ledger.is_open(identity.group) and identity not in self._buffer:
                self._start_group(identity.group)
                self._pending.discard(identity)
                self._leases.grant(
                    (identity,), process=process, worker_version=worker_version, now=now
                )

    def hold(
        self, process: str, ids: Iterable[TrajectoryId], *, now: float
    ) -> tuple[TrajectoryId, ...]:
        """Keep a worker's leases alive; return those that are not its any more."""
        named = tuple(ids)
        self._leases.extend(named, process=process, now=now)
        return tuple(each for each in named if self._leases.holder(each) != process)

    def accept(self, trajectory: DeliveredTrajectory) -> Outcome:
        """Take a trajectory in, or say why not.

        Work under an expired lease is kept if no other worker has the lease.
        """
        if refusal := self._refusal(trajectory.id, trajectory.epoch, trajectory.process):
            return refusal
        if trajectory.newest_version > self.version + 1:
            self._make_again(trajectory.id)
            return Outcome.MALFORMED
        if self._is_stale(trajectory):
            self._make_again(trajectory.id)
            return Outcome.STALE
        if self._is_unscored(trajectory):
            self._make_again(trajectory.id)
            return Outcome.UNSCORED
        self._leases.end(trajectory.id)
        self._pending.discard(trajectory.id)
        self._buffer.add(trajectory)
        return Outcome.ACCEPTED

    def fail(self, failed: FailedTrajectory) -> Outcome:
        """Count a failed try; its prompt is given up after ``MAX_FAILURES``."""
        if refusal := self._refusal(failed.id, failed.epoch, failed.process):
            return refusal
        self._failures[failed.group] += 1
        self._make_again(failed.id)
        return Outcome.FAILED

    def is_hopeless(self, group: int) -> bool:
        """Tell whether a group has failed too often to be tried again."""
        return self._failures[group] >= MAX_FAILURES

    def whole_group(self, group: int) -> tuple[DeliveredTrajectory, ...]:
        """Return a group's members once all are accepted, nothing before."""
        return self._buffer.whole_group(group)

    def abandon(self, group: int) -> None:
        """Give a prompt up: its group is done without having been trained on."""
        self._close(group)
        self._failures.pop(group, None)

    def expire(self, *, now: float) -> tuple[TrajectoryId, ...]:
        """Return expired leases to pending."""
        return self._back_to_pending(self._leases.end_expired(now=now))

    def release(self, process: str) -> tuple[TrajectoryId, ...]:
        """Take back everything from a worker that left or was replaced."""
        return self._back_to_pending(self._leases.end_of_process(process))

    # The rules behind

    def _is_stale(self, trajectory: DeliveredTrajectory) -> bool:
        age = self.version - trajectory.oldest_version
        return self._checks_consumption and not self._bound.admits(age)

    def _is_unscored(self, trajectory: DeliveredTrajectory) -> bool:
        return self.needs_reference and not trajectory.has_reference

    def _drop_stale(self) -> int:
        return len(self._back_to_pending(self._buffer.remove_where(self._is_stale)))

    def _counts(self) -> Ledger:
        # By version and not by a running total: what the trainer discards must not add up
        # to ever more work in flight.
        accepted = self.version * self._batch_size + len(self._buffer)
        return Ledger(version=self.version, accepted=accepted, running=self.num_running)

    def _capacity_of(self, worker_version: int) -> int:
        return self._bound.capacity(
            self._counts(),
            worker_version=worker_version,
            batch_size=self._batch_size,
            max_concurrent=self._max_concurrent,
        )

    def _withdraw_outdated(self) -> int:
        if not self._checks_consumption:
            return 0
        oldest = self.version - self._bound.max_staleness
        return len(self._back_to_pending(self._leases.end_older_than(oldest)))

    def _refusal(self, identity: TrajectoryId, epoch: int, process: str) -> Outcome | None:
        if epoch != self.epoch:
            return Outcome.FENCED
        if identity.member >= self._group_size:
            return Outcome.MALFORMED
        if identity in self._buffer or not self._ledger.is_open(identity.group):
            return Outcome.DUPLICATE
        is_free = identity in self._pending or self._leases.holder(identity) == process
        return None if is_free else Outcome.EXPIRED

    def _objection(
        self,
        version: int,
        *,
        consumed: Sequence[TrajectoryId],
        discarded: Sequence[TrajectoryId],
    ) -> str:
        named = (*consumed, *discarded)
        if version != self.version + 1:
            return f"version {version} does not follow version {self.version}"
        if len(set(named)) != len(named):
            return "a trajectory is named twice"
        if self._handed and not set(named) <= {each.id for each in self._handed}:
            return "a trajectory is named that was not in the batch"
        for identity in named:
            if not self._ledger.is_open(identity.group):
                return f"group {identity.group} was consumed before"
            if identity.group >= self._ledger.next_group + self._most_groups_ahead:
                return f"group {identity.group} was never leased"
        return ""

    @property
    def _most_groups_ahead(self) -> int:
        # What a trainer may know of when the journal was lost: batches of the bound.
        return (self._bound.max_staleness + 2) * self._batch_size

    def _already_committed(self) -> Committed:
        return Committed(resume=self.resume_point(), consumed=(), dropped_stale=0, withdrawn=0)

    def _start_group(self, group: int) -> None:
        if group in self._ledger.started:
            return
        self._ledger.start(group)
        for member in range(self._group_size):
            self._pending.add(TrajectoryId(group, member))

    def _close(self, group: int) -> None:
        self._ledger.close(group)
        self._buffer.remove_group(group)
        for member in range(self._group_size):
            self._leases.end(TrajectoryId(group, member))
            self._pending.discard(TrajectoryId(group, member))

    def _make_again(self, identity: TrajectoryId) -> None:
        self._leases.end(identity)
        self._pending.add(identity)

    def _back_to_pending(self, ids: tuple[TrajectoryId, ...]) -> tuple[TrajectoryId, ...]:
        for identity in ids:
            self._pending.add(identity)
        return ids
