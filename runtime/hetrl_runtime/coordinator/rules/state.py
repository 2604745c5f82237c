"""The rules of one run: leases of prompts, acceptance of trajectories, batches.

Events in, decisions out; no clock, socket or file. ``open_groups`` has the place of every
trajectory that is pending, leased or buffered. Together they never exceed what the bound promises,
``(η + 1)·B`` beyond the committed versions. Pending members go first, and B is a multiple of the
group size: room for one member of a new group is room for all of it, so half-made groups cannot
lock each other out.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_core.staleness import Ledger, StalenessBound
from hetrl_runtime.coordinator.rules.commits import CommitRefused, Committed, objection
from hetrl_runtime.coordinator.rules.open_groups import GroupLease, OpenGroups
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import FailedTrajectory, TrajectoryId
from hetrl_runtime.wire.values import Outcome, ResumePoint

MAX_FAILURES = 3
"""Failed tries of a group's members after which its prompt is given up."""

FEWEST_JUDGED = 2
"""Members with rewards that a group needs: a reward says something next to another one only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerBehind:
    """No lease: what the worker would begin now would be too old for its batch."""

    needs_version: int


class RunState:
    """The state of one run, between a trainer's registration and the last version."""

    def __init__(
        self,
        algorithm: AlgorithmSpec,
        *,
        max_concurrent: int,
        lease_seconds: float,
        checks_consumption: bool = True,
        is_left_out: Callable[[int], bool] = lambda _: False,
    ) -> None:
        """Start with nothing; ``begin`` comes first.

        ``is_left_out`` says of a group whether its prompt is not used, which is never so of all.
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
        self._opened = partial(
            OpenGroups,
            group_size=algorithm.group_size,
            lease_seconds=lease_seconds,
            is_left_out=is_left_out,
        )
        self._open = self._opened(ResumePoint())
        self._handed: tuple[DeliveredTrajectory, ...] = ()
        self.broke_once: frozenset[TrajectoryId] = frozenset()
        """Trajectories with which a trainer ended before it committed them."""

    # What can be asked

    @property
    def version(self) -> int:
        """The version being trained."""
        return self._open.ledger.version

    @property
    def num_running(self) -> int:
        """Trajectories under lease."""
        return len(self._open.leases)

    @property
    def num_buffered(self) -> int:
        """Trajectories that are accepted and not consumed, those handed out included.

        Those that were not judged count until their group is done.
        """
        return len(self._open.buffer)

    @property
    def num_pending(self) -> int:
        """Trajectories of started groups that wait for a worker."""
        return len(self._open.pending)

    @property
    def num_ready(self) -> int:
        """Trajectories in whole groups that the next batch may use."""
        return self._open.buffer.num_ready(version=self.version)

    @property
    def capacity(self) -> int:
        """Trajectories that may be leased now to workers with the newest weights."""
        return self._capacity_of(self.version)

    def resume_point(self) -> ResumePoint:
        """Return where the run would go on from the last commit."""
        return self._open.ledger.resume_point()

    def buffered(self) -> tuple[DeliveredTrajectory, ...]:
        """Return all accepted trajectories that are not consumed."""
        return tuple(self._open.buffer)

    def leased(self) -> dict[tuple[str, int], list[TrajectoryId]]:
        """Return the trajectories leased to each worker and version of its weights."""
        return self._open.leases.by_worker()

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
        self._open = self._opened(point)
        self._handed = ()
        for trajectory in before:
            if trajectory.newest_version <= point.version and not self._is_unscored(trajectory):
                self.readmit(trajectory)
        return len(before) - self.num_buffered

    def blame_batch(self) -> tuple[DeliveredTrajectory, ...]:
        """Note that a trainer ended with the batch in its hands; return what did so twice.

        The caller keeps those somewhere else and abandons their groups: a trainer that is
        restarted with what ends it never gets any further.
        """
        handed = {each.id for each in self._handed}
        twice = handed & self.broke_once
        self.broke_once = (self.broke_once | handed) - twice
        return tuple(each for each in self._handed if each.id in twice)

    def readmit(self, trajectory: DeliveredTrajectory) -> None:
        """Put back a trajectory that was accepted before, unless its group is done."""
        if not self._open.is_settled(trajectory.id):
            self._open.accept(trajectory)

    def batch(self) -> tuple[DeliveredTrajectory, ...]:
        """Return the batch that the current version trains on; empty when it is not full.

        This is the strict check: whatever is too old is dropped here, and made again.
        """
        buffer = self._open.buffer
        # Asked after every delivery: the cheap question first.
        if not self._handed and buffer.num_in_whole_groups >= self._batch_size:
            self._drop_stale()
            self._handed = buffer.oldest_batch(self._batch_size, version=self.version)
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
            return Committed(resume=self.resume_point())
        reason = objection(
            version,
            (*consumed, *discarded),
            handed=[each.id for each in self._handed],
            ledger=self._open.ledger,
            # What a trainer may know of when the journal was lost: batches of the bound.
            most_groups_ahead=(self._bound.max_staleness + 2) * self._batch_size,
        )
        if reason:
            return CommitRefused(reason=reason)
        by_id = {each.id: each for each in self._open.buffer}
        trained = tuple(by_id[each] for each in consumed if each in by_id)
        for group in {each.group for each in consumed}:
            self._open.close(group)
        for identity in discarded:
            self._open.discard(identity)
        self._open.ledger.version = version
        self._handed = ()
        self.broke_once -= {*consumed, *discarded}
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
        count = min(max_trajectories, capacity)
        return self._open.lease(count, process=process, worker_version=worker_version, now=now)

    def restore_leases(
        self, process: str, ids: Iterable[TrajectoryId], *, worker_version: int, now: float
    ) -> None:
        """Repeat a lease that was given before, as a journal says."""
        for identity in ids:
            self._open.restore_lease(
                identity, process=process, worker_version=worker_version, now=now
            )

    def hold(
        self, process: str, ids: Iterable[TrajectoryId], *, now: float
    ) -> tuple[TrajectoryId, ...]:
        """Keep a worker's leases alive; return those that are not its any more."""
        named = tuple(ids)
        leases = self._open.leases
        leases.extend(named, process=process, now=now)
        return tuple(each for each in named if leases.holder(each) != process)

    def accept(self, trajectory: DeliveredTrajectory) -> Outcome:
        """Take a trajectory in, or say why not.

        Work under an expired lease is kept if no other worker has the lease.
        """
        if refusal := self._refusal(trajectory.id, trajectory.epoch, trajectory.process):
            return refusal
        if refusal := self._unusable(trajectory):
            self._open.make_again([trajectory.id])
            return refusal
        self._open.accept(trajectory)
        return Outcome.ACCEPTED

    def refusal_of(self, failed: FailedTrajectory) -> Outcome | None:
        """Return why a failure is nothing to this run; None where it is."""
        return self._refusal(failed.id, failed.epoch, failed.process)

    def contradiction(self, trajectory: DeliveredTrajectory) -> str:
        """Say what of a trajectory cannot be in this run; empty where all can."""
        if trajectory.member >= self._group_size:
            return f"member {trajectory.member} is not in a group of {self._group_size}"
        if trajectory.newest_version > self.version + 1:
            newest = trajectory.newest_version
            return f"token_versions has {newest}, version {self.version} is being trained"
        return ""

    def fail(self, failed: FailedTrajectory) -> Outcome:
        """Count a failed try; its prompt is given up after ``MAX_FAILURES``."""
        if refusal := self.refusal_of(failed):
            return refusal
        self._open.fail(failed.id)
        return Outcome.FAILED

    def leave_unjudged(self, failed: FailedTrajectory) -> Outcome:
        """Let a group do without a member that was not judged."""
        if refusal := self.refusal_of(failed):
            return refusal
        self._open.accept_unjudged(failed.id)
        return Outcome.UNJUDGED

    def has_failed(self, group: int) -> bool:
        """Tell whether a group has failed too often to be tried again."""
        return self._open.failures[group] >= MAX_FAILURES

    def lacks_rewards(self, group: int) -> bool:
        """Tell whether too few members of a group can still be judged."""
        num_judged = self._group_size - self._open.buffer.num_unjudged(group)
        return num_judged < min(FEWEST_JUDGED, self._group_size)

    def whole_group(self, group: int) -> tuple[DeliveredTrajectory, ...]:
        """Return a group's judged members once all are delivered, nothing before."""
        return self._open.buffer.whole_group(group)

    def abandon(self, group: int) -> None:
        """Give a prompt up: its group is done without having been trained on."""
        self._open.close(group)

    def expire(self, *, now: float) -> tuple[TrajectoryId, ...]:
        """Return expired leases to pending."""
        return self._open.make_again(self._open.leases.end_expired(now=now))

    def release(self, process: str) -> tuple[TrajectoryId, ...]:
        """Take back everything from a worker that left or was replaced."""
        return self._open.make_again(self._open.leases.end_of_process(process))

    # The rules behind

    def _is_stale(self, trajectory: DeliveredTrajectory) -> bool:
        age = self.version - trajectory.oldest_version
        return self._checks_consumption and not self._bound.admits(age)

    def _is_unscored(self, trajectory: DeliveredTrajectory) -> bool:
        return self.needs_reference and not trajectory.has_reference

    def _drop_stale(self) -> int:
        return len(self._open.make_again(self._open.buffer.remove_where(self._is_stale)))

    def _counts(self) -> Ledger:
        # By version and not by a running total: what the trainer discards must not add up
        # to ever more work in flight.
        accepted = self.version * self._batch_size + self.num_buffered
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
        return len(self._open.make_again(self._open.leases.end_older_than(oldest)))

    def _refusal(self, identity: TrajectoryId, epoch: int, process: str) -> Outcome | None:
        if epoch != self.epoch:
            return Outcome.FENCED
        if identity.member >= self._group_size:
            return Outcome.MALFORMED
        if self._open.is_settled(identity):
            return Outcome.DUPLICATE
        return None if self._open.may_deliver(identity, process) else Outcome.EXPIRED

    def _unusable(self, trajectory: DeliveredTrajectory) -> Outcome | None:
        if self.contradiction(trajectory):
            return Outcome.MALFORMED
        if self._is_stale(trajectory):
            return Outcome.STALE
        return Outcome.UNSCORED if self._is_unscored(trajectory) else None
