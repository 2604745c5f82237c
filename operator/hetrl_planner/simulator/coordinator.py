"""Who gets a prompt, what is accepted, what is trained on: the runtime's rules, played.

Capacity, leases and the strict check are answers of ``hetrl_core.staleness``; this keeps the
counts that it asks for. Every lease ends exactly once, as one ``Ending``.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heapreplace

from hetrl_core.staleness import Ledger, StalenessBound, staleness
from hetrl_planner.simulator.calendar import Alarm, Calendar
from hetrl_planner.simulator.pipeline import NO_BOUND, Pipeline
from hetrl_planner.simulator.queue import GroupQueue
from hetrl_planner.simulator.replica import Replica
from hetrl_planner.simulator.trajectory import Ending, PromptGroup, Trajectory


class Coordinator:
    """The ledger of one run: leases out, groups in the making, groups that wait for training."""

    def __init__(
        self,
        calendar: Calendar,
        pipeline: Pipeline,
        *,
        draw_tokens: Callable[[], int],
        is_filtered: Callable[[], bool],
    ) -> None:
        """Start at version 0 with nothing lent.

        ``on_ready`` and ``score`` are set by who builds the run: the trainer is told when
        there may be enough, and stages are given what is generated.
        """
        eta = NO_BOUND if pipeline.max_staleness is None else pipeline.max_staleness
        self._bound = StalenessBound(max_staleness=eta)
        self._calendar = calendar
        self._pipeline = pipeline
        self._batch_size = pipeline.batch_size
        self._group_size = pipeline.group_size
        self._max_concurrent = pipeline.max_concurrent or pipeline.num_places
        self._lends_groups = pipeline.lends_groups
        self._checks = pipeline.checks_consumption
        self._draw_tokens = draw_tokens
        self._is_filtered = is_filtered
        self._pending: deque[PromptGroup] = deque()
        self._leased: dict[Trajectory, float] = {}
        self._accepted: dict[Trajectory, None] = {}
        self._queue = GroupQueue(self._room)
        self._waiting: dict[Replica, None] = {}
        self._will_serve = False
        self._deadline = Alarm(calendar, self._expire_overdue)
        self.on_ready: Callable[[], None] = _nothing
        self.score: Callable[[Trajectory], None] = self.scored
        self.trainer_waits: Callable[[], bool] = _yes
        self.version = 0
        self.num_granted = 0
        self.num_handed = 0
        """Trajectories that are in training."""
        self.endings: Counter[Ending] = Counter()
        self.generated_tokens = 0
        self.consumed_tokens = 0
        self.discarded_tokens = 0

    # What can be asked

    @property
    def num_running(self) -> int:
        """Trajectories that are lent out."""
        return len(self._leased)

    @property
    def num_buffered(self) -> int:
        """Trajectories that are accepted and not consumed, those in training included."""
        return len(self._accepted)

    @property
    def num_waiting(self) -> int:
        """Trajectories that are accepted and not in training, scored or not."""
        return len(self._accepted) - self.num_handed

    @property
    def num_ready(self) -> int:
        """Trajectories in whole, scored groups."""
        return len(self._queue) * self._group_size

    def capacity(self) -> int:
        """Return how many trajectories may be lent now."""
        accepted = self.version * self._batch_size + len(self._accepted)
        return self._bound.capacity(
            Ledger(version=self.version, accepted=accepted, running=len(self._leased)),
            batch_size=self._batch_size,
            max_concurrent=self._max_concurrent,
        )

    # What replicas do

    def ask(self, replica: Replica) -> None:
        """Give a replica work for its free places, now or as soon as the bound allows."""
        wanted = replica.num_free
        if not wanted:
            return
        left = min(wanted, self.capacity()) if self._may_lease(replica) else 0
        while left and (lent := self._lend(replica, most=left)):
            left -= lent
            wanted -= lent
        if wanted:
            self._waiting[replica] = None

    def ask_with_others(self, replica: Replica) -> None:
        """The same where many may ask at one moment: they share what there is."""
        self._waiting[replica] = None
        if not self._will_serve:
            self._will_serve = True
            self._calendar.after(0.0, self._serve_together)

    def deliver(self, trajectory: Trajectory) -> None:
        """Take a finished trajectory, unless its lease has ended."""
        self.generated_tokens += trajectory.num_tokens
        if trajectory not in self._leased:
            self.discarded_tokens += trajectory.num_tokens
            return
        age = staleness(trajectory.versions, version=self.version)
        if self._checks and not self._bound.admits(age):
            self._reject(trajectory)
            return
        del self._leased[trajectory]
        self._accepted[trajectory] = None
        trajectory.group.accepted.append(trajectory)
        self.score(trajectory)

    def lose(self, lost: list[Trajectory]) -> None:
        """Wait out the leases of a replica that went down."""
        self._calendar.after(self._pipeline.lease_seconds, lambda: self.release(lost))

    def release(self, lost: list[Trajectory]) -> None:
        """End leases, where they have not ended yet, of work that is known to be lost."""
        self._expire(lost)

    # What stages do

    def scored(self, trajectory: Trajectory) -> None:
        """Know that a trajectory has all its scores; its group may be whole now."""
        if trajectory not in self._accepted:
            return
        trajectory.is_scored = True
        group = trajectory.group
        group.num_scored += 1
        if group.num_scored < self._group_size:
            return
        if self._is_filtered():
            self._drop(group.accepted, Ending.FILTERED)
            self.serve_waiting()
        elif self._queue.offer(group):
            self.on_ready()

    # What the trainer does

    def take(self, count: int) -> list[Trajectory]:
        """Hand out the oldest whole groups with so many trajectories together.

        The strict check was made when each was accepted and at every version since.
        """
        self.num_handed += count
        return self._queue.take(count // self._group_size)

    def ages(self, batch: Iterable[Trajectory]) -> list[int]:
        """Return the staleness of each trajectory of a batch."""
        return [staleness(each.versions, version=self.version) for each in batch]

    def commit(self, batch: Sequence[Trajectory]) -> None:
        """Count a batch as consumed, move to the next version, check everything again."""
        for trajectory in batch:
            del self._accepted[trajectory]
            # A group and its members refer to each other; left so, they would all wait for
            # the garbage collector, which then takes a fifth of the time.
            trajectory.group.accepted.clear()
        self.consumed_tokens += sum(each.num_tokens for each in batch)
        self.endings[Ending.CONSUMED] += len(batch)
        self.num_handed = 0
        self.version += 1
        if self._checks:
            self._drop_stale()
            self._withdraw_outdated()

    def rewind(self, version: int, *, handed: list[Trajectory]) -> None:
        """Go back to a checkpoint's version, as the runtime does under a new epoch.

        All leases are fenced off. What was accepted stays where the surviving history has
        sampled it; ``handed`` was in training and waits again, first in line.
        """
        self.version = version
        self.num_handed = 0
        self._queue.put_back(dict.fromkeys(each.group for each in handed))
        future = [each for each in self._accepted if each.versions[1] > version]
        self._make_again(future, Ending.FENCED)
        self._end_leases(list(self._leased), Ending.FENCED)

    def admit_blocked(self) -> None:
        """Let finished groups into the queue while it has room."""
        for replica in self._queue.admit():
            self.ask_with_others(replica)

    def serve_waiting(self) -> None:
        """Share out the capacity among replicas with free places, the emptiest first."""
        if not self._waiting or not (capacity := self.capacity()):
            return
        able = [each for each in self._waiting if each.num_free and self._may_lease(each)]
        line = [(len(each.work.ends) / each.num_places, n, each) for n, each in enumerate(able)]
        heapify(line)
        for _, _, replica in line:
            replica.work.settle()
        while line and capacity:
            _, number, replica = line[0]
            lent = self._lend(replica, most=min(capacity, replica.num_free))
            capacity -= lent
            if not lent:
                heappop(line)
            elif replica.num_free:
                heapreplace(line, (len(replica.work.ends) / replica.num_places, number, replica))
            else:
                heappop(line)
                del self._waiting[replica]
        for replica in able:
            replica.work.look_ahead()

    # The rules behind

    def _serve_together(self) -> None:
        self._will_serve = False
        self.serve_waiting()

    def _may_lease(self, replica: Replica) -> bool:
        # Weights newer than the version are those of a history that was lost.
        return replica.version <= self.version and self._bound.may_lease(
            worker_version=replica.version, version=self.version
        )

    def _room(self) -> int | None:
        """Return the groups that may wait for the trainer."""
        room = self._pipeline.queue_capacity
        if room is None:
            return None
        # A trainer that waits takes groups out of the queue as they come, up to its batch.
        taken = self._batch_size if self.trainer_waits() else 0
        return (room + taken) // self._group_size

    def _lend(self, replica: Replica, *, most: int) -> int:
        """Lend what comes next, one trajectory or a whole new group; return how many."""
        if self._pending or not self._lends_groups:
            self._grant(replica)
            return 1
        if most < self._group_size:
            return 0
        for _ in range(self._group_size):
            self._grant(replica)
        return self._group_size

    def _grant(self, replica: Replica) -> None:
        if not self._pending:
            self._pending.extend([PromptGroup()] * self._group_size)
        trajectory = Trajectory(self._pending.popleft(), replica, self._draw_tokens())
        self.num_granted += 1
        self._leased[trajectory] = self._calendar.now + self._pipeline.lease_seconds
        if not self._pipeline.renews_leases and len(self._leased) == 1:
            self._deadline.set(self._pipeline.lease_seconds)
        replica.start(trajectory)

    def _expire_overdue(self) -> None:
        """End the leases that nobody renews; they were granted in the order of their ends."""
        now = self._calendar.now
        overdue = []
        for trajectory, ends_at in self._leased.items():
            if ends_at > now:
                break
            overdue.append(trajectory)
        self._expire(overdue)
        if self._leased:
            self._deadline.set(max(0.0, next(iter(self._leased.values())) - now))

    def _expire(self, trajectories: list[Trajectory]) -> None:
        self._end_leases([each for each in trajectories if each in self._leased], Ending.EXPIRED)
        self.serve_waiting()

    def _withdraw_outdated(self) -> None:
        outdated = {
            version
            for version in {each.lease_version for each in self._leased}
            if not self._bound.may_lease(worker_version=version, version=self.version)
        }
        if outdated:
            late = [each for each in self._leased if each.lease_version in outdated]
            self._end_leases(late, Ending.WITHDRAWN)

    def _drop_stale(self) -> None:
        stale_versions = {
            versions
            for versions in {each.versions for each in self._accepted}
            if not self._bound.admits(staleness(versions, version=self.version))
        }
        if stale_versions:
            stale = [each for each in self._accepted if each.versions in stale_versions]
            self._make_again(stale, Ending.REJECTED)

    def _reject(self, trajectory: Trajectory) -> None:
        self._end_lease(trajectory, Ending.REJECTED)
        self.discarded_tokens += trajectory.num_tokens
        self._pending.append(trajectory.group)
        # Whoever delivers asks next and takes the slot itself, unless it cannot.
        replica = trajectory.replica
        if not (replica.num_free and self._may_lease(replica)):
            self.serve_waiting()

    def _end_leases(self, trajectories: list[Trajectory], ending: Ending) -> None:
        """End running leases; their prompts are lent again, and whoever runs them stops."""
        by_replica: dict[Replica, list[Trajectory]] = {}
        for trajectory in trajectories:
            self._end_lease(trajectory, ending)
            self._pending.append(trajectory.group)
            by_replica.setdefault(trajectory.replica, []).append(trajectory)
        for replica, theirs in by_replica.items():
            replica.abort(theirs)

    def _end_lease(self, trajectory: Trajectory, ending: Ending) -> None:
        del self._leased[trajectory]
        self.endings[ending] += 1

    def _make_again(self, trajectories: list[Trajectory], ending: Ending) -> None:
        """Drop accepted trajectories of groups that are still wanted."""
        self._drop(trajectories, ending)
        for replica in self._queue.discard({each.group for each in trajectories}):
            self.ask_with_others(replica)
        for trajectory in trajectories:
            group = trajectory.group
            group.accepted.remove(trajectory)
            group.num_scored -= trajectory.is_scored
            self._pending.append(group)

    def _drop(self, trajectories: Iterable[Trajectory], ending: Ending) -> None:
        for trajectory in trajectories:
            del self._accepted[trajectory]
            self.endings[ending] += 1
            self.discarded_tokens += trajectory.num_tokens


def _nothing() -> None:
    """Nobody wants to know."""


def _yes() -> bool:
    return True
