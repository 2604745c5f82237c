"""The simulated coordinator: it accepts trajectories, completes groups and fills batches.

``RunLedger`` keeps the counts and applies the staleness bound; ``Leases`` assigns prompts.
"""

from collections.abc import Callable, Sequence

from hetrl_planner.simulator.coordination.leases import Leases
from hetrl_planner.simulator.coordination.ledger import RunLedger
from hetrl_planner.simulator.coordination.queue import GroupQueue
from hetrl_planner.simulator.events.trajectory import LeaseEnd, PromptGroup, Trajectory
from hetrl_planner.simulator.pipeline.pipeline import Pipeline


class Coordinator:
    """The state of groups in progress, and of groups that wait for training."""

    def __init__(
        self,
        pipeline: Pipeline,
        ledger: RunLedger,
        leases: Leases,
        *,
        is_filtered: Callable[[], bool],
    ) -> None:
        """Start at version 0 with nothing granted.

        ``assemble`` sets ``on_ready``, ``trainer_waits`` and ``score``, which notify the trainer of
        ready groups and pass generated trajectories to stages.
        """
        self._ledger = ledger
        self._leases = leases
        self._batch_size = pipeline.batch_size
        self._group_size = pipeline.group_size
        self._queue_capacity = pipeline.queue_capacity
        self._checks = pipeline.checks_consumption
        self._is_filtered = is_filtered
        self._queue = GroupQueue(self._room)
        self._num_handed = 0
        self.on_ready: Callable[[], None] = _nothing
        self.score: Callable[[Trajectory], None] = self._count_scored
        self.trainer_waits: Callable[[], bool] = _yes
        self.generated_tokens = 0
        self.consumed_tokens = 0
        self.discarded_tokens = 0

    @property
    def version(self) -> int:
        """The policy version that is being trained."""
        return self._ledger.version

    @property
    def num_waiting(self) -> int:
        """Trajectories that are accepted and not in training, scored or not."""
        return len(self._ledger.accepted) - self._num_handed

    @property
    def num_ready(self) -> int:
        """Trajectories in whole, scored groups."""
        return len(self._queue) * self._group_size

    # Calls of replicas and stages

    def deliver(self, trajectory: Trajectory) -> None:
        """Take a finished trajectory, unless its lease has ended."""
        self.generated_tokens += trajectory.num_tokens
        ledger = self._ledger
        if trajectory not in ledger.leased:
            self.discarded_tokens += trajectory.num_tokens
        elif ledger.is_too_old(trajectory.versions):
            self._reject(trajectory)
        else:
            ledger.accept(trajectory)
            trajectory.group.accepted.append(trajectory)
            self.score(trajectory)

    def scored(self, trajectory: Trajectory) -> None:
        """Record that a trajectory has all its scores, unless it was dropped meanwhile."""
        if trajectory in self._ledger.accepted:
            self._count_scored(trajectory)

    # Calls of the trainer

    def take(self, count: int) -> list[Trajectory]:
        """Take the oldest whole groups, with so many trajectories together.

        Each passed the strict check when it was accepted and at every version since.
        """
        self._num_handed += count
        return self._queue.take(count // self._group_size)

    def ages(self, batch: Sequence[Trajectory]) -> list[int]:
        """Return the staleness of each trajectory of a batch."""
        ages = {versions: self._ledger.age(versions) for versions in {e.versions for e in batch}}
        return [ages[each.versions] for each in batch]

    def commit(self, batch: Sequence[Trajectory]) -> None:
        """Count a batch as consumed, move to the next version, check everything again."""
        self.consumed_tokens += self._ledger.end_accepted(batch, LeaseEnd.CONSUMED)
        for trajectory in batch:
            # A group and its members refer to each other. Without this, they would all wait for
            # the garbage collector, which then takes a fifth of the time.
            trajectory.group.accepted.clear()
        self._num_handed = 0
        self._ledger.move_to(self.version + 1)
        if self._checks:
            self._regenerate(self._ledger.stale(), LeaseEnd.REJECTED)
            self._leases.end_leases(self._ledger.outdated(), LeaseEnd.WITHDRAWN)

    def rewind(self, version: int, *, handed: list[Trajectory]) -> None:
        """Go back to a checkpoint's version, as the runtime does under a new epoch.

        All leases are fenced. Accepted trajectories stay if the surviving history sampled them;
        ``handed`` was in training and waits again, first in line.
        """
        ledger = self._ledger
        ledger.move_to(version)
        self._num_handed = 0
        self._queue.put_back(dict.fromkeys(each.group for each in handed))
        # Its first token may be the newer one: replicas return to the checkpoint's weights too.
        future = [each for each in ledger.accepted if max(each.versions) > version]
        self._regenerate(future, LeaseEnd.FENCED)
        self._leases.end_leases(list(ledger.leased), LeaseEnd.FENCED)

    def resume(self) -> None:
        """Use the room that a taken batch leaves in the queue and in the bound."""
        self.admit_blocked()
        self._leases.serve_waiting()

    def admit_blocked(self) -> None:
        """Admit finished groups to the queue while it has room."""
        for replica in self._queue.admit():
            self._leases.request_together(replica)

    # Rules

    def _room(self) -> int | None:
        """Return the groups that may wait for the trainer."""
        if self._queue_capacity is None:
            return None
        # A trainer that waits takes groups out of the queue as they come, up to its batch.
        taken = self._batch_size if self.trainer_waits() else 0
        return (self._queue_capacity + taken) // self._group_size

    def _count_scored(self, trajectory: Trajectory) -> None:
        trajectory.is_scored = True
        group = trajectory.group
        group.num_scored += 1
        if group.num_scored == self._group_size:
            self._complete(group)

    def _complete(self, group: PromptGroup) -> None:
        """Drop or queue a group that is whole and scored."""
        if self._is_filtered():
            self._drop(group.accepted, LeaseEnd.FILTERED)
            self._leases.serve_waiting()
        elif self._queue.offer(group, last=self._ledger.accepted[group.accepted[-1]]):
            self.on_ready()

    def _reject(self, trajectory: Trajectory) -> None:
        replica = self._ledger.end_lease(trajectory, LeaseEnd.REJECTED)
        self.discarded_tokens += trajectory.num_tokens
        self._leases.requeue(trajectory.group)
        # The delivering replica requests work next and takes the slot itself, unless it cannot.
        if not (replica.num_free() and self._ledger.capacity_of(replica.version)):
            self._leases.serve_waiting()

    def _regenerate(self, trajectories: list[Trajectory], ending: LeaseEnd) -> None:
        """Drop accepted trajectories of groups that are still needed."""
        if not trajectories:
            return
        self._drop(trajectories, ending)
        for replica in self._queue.discard({each.group for each in trajectories}):
            self._leases.request_together(replica)
        for trajectory in trajectories:
            group = trajectory.group
            group.accepted.remove(trajectory)
            group.num_scored -= trajectory.is_scored
            self._leases.requeue(group)

    def _drop(self, trajectories: Sequence[Trajectory], ending: LeaseEnd) -> None:
        self.discarded_tokens += self._ledger.end_accepted(trajectories, ending)


def _nothing() -> None:
    """Ignore a notification."""


def _yes() -> bool:
    return True
