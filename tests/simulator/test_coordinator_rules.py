"""The simulator's coordinator against the runtime's: one random run, played on both.

The simulator has its own implementation of the coordinator's rules, which is faster. Both must
admit, accept, reject, withdraw and expire the same trajectories.
"""

from collections.abc import Mapping
from itertools import repeat
from random import Random
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_planner.simulator.coordination.coordinator import Coordinator
from hetrl_planner.simulator.coordination.leases import Leases
from hetrl_planner.simulator.coordination.ledger import RunLedger
from hetrl_planner.simulator.events.calendar import Calendar
from hetrl_planner.simulator.events.trajectory import LeaseEnd, PromptGroup, Trajectory
from hetrl_planner.simulator.serving.replica import Replica
from hetrl_runtime.coordinator.rules.state import Committed, RunState, WorkerBehind
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import Outcome, ResumePoint
from tests.simulator.pipelines import a_pipeline

LEASE_SECONDS = 12.5
"""No whole number, so that no lease expires at a time at which a rule runs."""

WORKERS = ("one", "two", "three")


class Worker:
    """What leases need of a replica: it takes as many trajectories as it is asked to."""

    def __init__(self) -> None:
        self.version = 0
        self.wanted = 0
        self.num_held_places = 0
        self.fullness = 0.0
        self.started: list[Trajectory] = []
        self.work = self

    def num_free(self) -> int:
        return self.wanted

    def start(self, trajectory: Trajectory) -> None:
        self.wanted -= 1
        self.started.append(trajectory)

    def abort(self, _: list[Trajectory]) -> None:
        """Nothing runs here."""

    settle = schedule_next_end = lambda _: None


class BothCoordinators:
    """A simulated and a real coordinator, and which trajectory of one is which of the other."""

    def __init__(
        self, *, eta: int, batch: int, group: int, max_concurrent: int = 100, checks: bool = True
    ) -> None:
        pipeline = a_pipeline(
            batch=batch,
            group=group,
            eta=eta,
            max_concurrent=max_concurrent,
            checks_consumption=checks,
            lease_seconds=LEASE_SECONDS,
            renews_leases=False,
        )
        self.batch_size = batch
        self.calendar = Calendar()
        self.ledger = RunLedger(pipeline)
        self.leases = Leases(self.calendar, pipeline, self.ledger, lengths=repeat(1))
        self.simulated = Coordinator(pipeline, self.ledger, self.leases, is_filtered=lambda: False)
        self.real = RunState(
            AlgorithmSpec(max_staleness=eta, group_size=group, global_batch_size=batch),
            max_concurrent=max_concurrent,
            lease_seconds=LEASE_SECONDS,
            checks_consumption=checks,
        )
        self.real.begin(ResumePoint(), epoch=1)
        self.workers = {name: Worker() for name in WORKERS}
        self.ids: dict[Trajectory, TrajectoryId] = {}
        self.points = {0: ResumePoint()}

    def lease(self, name: str, count: int) -> list[tuple[Trajectory, TrajectoryId]]:
        """Lease to a worker from both, which must grant equally many."""
        worker = self.workers[name]
        worker.wanted, worker.started = count, []
        self.leases.request(cast("Replica", worker))
        worker.wanted = 0
        granted = self.real.lease(
            name,
            worker_version=worker.version,
            max_trajectories=count,
            now=self.calendar.now,
        )
        ids = [] if isinstance(granted, WorkerBehind) else [i for each in granted for i in each.ids]
        assert len(worker.started) == len(ids)
        pairs = list(zip(worker.started, ids, strict=True))
        self.ids.update(pairs)
        return pairs

    def deliver(self, trajectory: Trajectory) -> Outcome:
        """Deliver a leased trajectory, sampled by the worker's old and present weights, to both."""
        name = next(each for each in WORKERS if self._holder(trajectory) is self.workers[each])
        newest = self.workers[name].version
        trajectory.versions = (min(trajectory.lease_version, newest), newest)
        rejected = self.ledger.endings[LeaseEnd.REJECTED]
        self.simulated.deliver(trajectory)
        outcome = self.real.accept(
            DeliveredTrajectory(
                id=self.ids[trajectory],
                epoch=self.real.epoch,
                process=name,
                reward=0.0,
                reward_parts={},
                oldest_version=trajectory.versions[0],
                newest_version=newest,
                num_response_tokens=1,
                num_tool_calls=0,
                has_reference=False,
                data=b"",
            )
        )
        is_rejected = self.ledger.endings[LeaseEnd.REJECTED] > rejected
        assert outcome is (Outcome.STALE if is_rejected else Outcome.ACCEPTED)
        return outcome

    def commit(self) -> list[Trajectory]:
        """Train both on the simulator's oldest batch; they must drop equally many."""
        batch = self.simulated.take(self.batch_size)
        before = self.ledger.endings.copy()
        self.simulated.commit(batch)
        ended = self.ledger.endings - before
        consumed = [self.ids[each] for each in batch]
        committed = self.real.commit(self.real.version + 1, consumed=consumed)
        assert isinstance(committed, Committed)
        assert committed.dropped_stale == ended[LeaseEnd.REJECTED]
        assert committed.withdrawn == ended[LeaseEnd.WITHDRAWN]
        self.points[self.real.version] = committed.resume
        return batch

    def rewind(self, version: int) -> None:
        """Go back to a version's checkpoint; workers reload its weights."""
        self.simulated.rewind(version, handed=[])
        self.real.begin(self.points[version], epoch=self.real.epoch + 1)
        for worker in self.workers.values():
            worker.version = min(worker.version, version)

    def wait(self, seconds: int) -> None:
        """Let time pass, and leases expire."""
        reached: list[bool] = []
        self.calendar.after(seconds, lambda: reached.append(True))
        while not reached:
            self.calendar.allow(1)
            self.calendar.play()
        self.real.expire(now=self.calendar.now)

    def assert_equal(self) -> None:
        """Compare the counts, the leases of each worker, and the accepted trajectories."""
        assert self.ledger.version == self.real.version
        assert self.ledger.capacity() == self.real.capacity
        assert self.simulated.num_ready == self.real.num_ready
        leased: dict[tuple[str, int], set[TrajectoryId]] = {}
        for trajectory in self.ledger.leased:
            (name,) = (e for e in WORKERS if self.workers[e] is self._holder(trajectory))
            leased.setdefault((name, trajectory.lease_version), set()).add(self.ids[trajectory])
        assert leased == {key: set(ids) for key, ids in self.real.leased().items()}
        accepted = {self.ids[each] for each in self.ledger.accepted}
        assert accepted == {each.id for each in self.real.buffered()}

    def _holder(self, trajectory: Trajectory) -> Worker:
        return cast("Worker", self.ledger.leased[trajectory])


class RandomRun:
    """A run in which everything happens; groups of one, as any prompt is as good as another."""

    EVENTS: Mapping[str, int] = {
        "lease": 8,
        "load_weights": 8,
        "deliver": 8,
        "train": 10,
        "wait": 2,
        "lose_worker": 1,
        "lose_trainer": 2,
    }
    """Each event's weight."""

    def __init__(self, both: BothCoordinators, random: Random) -> None:
        self.both = both
        self.random = random

    def play(self, num_events: int) -> None:
        names, weights = zip(*self.EVENTS.items(), strict=True)
        for name in self.random.choices(names, weights, k=num_events):
            getattr(self, name)()
            self.both.assert_equal()

    def worker(self) -> str:
        return self.random.choice(WORKERS)

    def lease(self) -> None:
        self.both.lease(self.worker(), self.random.randint(1, 4))

    def load_weights(self) -> None:
        worker, newest = self.both.workers[self.worker()], self.both.real.version
        worker.version = self.random.randint(min(worker.version, newest), newest)

    def deliver(self) -> None:
        if leased := list(self.both.ledger.leased):
            self.both.deliver(self.random.choice(leased))

    def train(self) -> None:
        """Let a worker with new weights fill the batch, as far as the bound allows."""
        both, name = self.both, self.worker()
        both.workers[name].version = both.real.version
        missing = both.batch_size - both.simulated.num_ready
        for trajectory, _ in both.lease(name, missing) if missing > 0 else ():
            both.deliver(trajectory)
        if both.simulated.num_ready >= both.batch_size:
            both.commit()

    def wait(self) -> None:
        self.both.wait(self.random.randint(1, 4))

    def lose_worker(self) -> None:
        name = self.worker()
        lost = [
            each for each, at in self.both.ledger.leased.items() if at is self.both.workers[name]
        ]
        self.both.leases.release(lost)
        self.both.real.release(name)

    def lose_trainer(self) -> None:
        self.both.rewind(max(0, self.both.real.version - self.random.randint(0, 3)))


@settings(max_examples=150, deadline=None)
@given(
    eta=st.integers(0, 3),
    batch=st.integers(1, 8),
    max_concurrent=st.integers(2, 40),
    checks=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_events_have_the_same_effect(
    eta: int, batch: int, max_concurrent: int, checks: bool, seed: int
) -> None:
    both = BothCoordinators(
        eta=eta, batch=batch, group=1, max_concurrent=max_concurrent, checks=checks
    )
    RandomRun(both, Random(seed)).play(120)


@settings(max_examples=40, deadline=None)
@given(
    group=st.integers(1, 4),
    groups_of_a_batch=st.integers(1, 3),
    eta=st.integers(0, 2),
    choices=st.lists(st.tuples(st.sampled_from(WORKERS), st.integers(0, 8)), max_size=60),
)
def test_leases_and_batches_have_the_same_groups(
    group: int, groups_of_a_batch: int, eta: int, choices: list[tuple[str, int]]
) -> None:
    """Nothing ends early here: a prompt that is made again waits behind others in the simulator,
    and before them in the runtime."""
    both = BothCoordinators(eta=eta, batch=group * groups_of_a_batch, group=group, checks=False)
    numbers: dict[PromptGroup, int] = {}
    for name, number in choices:
        granted = both.lease(name, number)
        for trajectory, _ in granted:
            numbers.setdefault(trajectory.group, len(numbers))
        simulated = [numbers[trajectory.group] for trajectory, _ in granted]
        assert simulated == [identity.group for _, identity in granted]
        if leased := list(both.ledger.leased):
            assert both.deliver(leased[number % len(leased)]) is Outcome.ACCEPTED
        both.assert_equal()
        if both.simulated.num_ready >= both.batch_size:
            handed = {each.id for each in both.real.batch()}
            assert handed == {both.ids[each] for each in both.commit()}
            for worker in both.workers.values():
                worker.version = both.real.version
