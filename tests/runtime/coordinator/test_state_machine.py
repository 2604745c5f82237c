"""Random lives of a run: workers lease, deliver late, die; trainers commit, discard, rewind.

Checked after every step, against a model that knows only what was promised: the bound is
never broken, nothing is trained twice on the surviving history, no capacity is exceeded,
nothing is lost, and the journal tells the same story as the state.
"""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_runtime.coordinator.journal import history
from hetrl_runtime.coordinator.rules.commits import Committed
from hetrl_runtime.coordinator.rules.state import FEWEST_JUDGED, RunState, WorkerBehind
from hetrl_runtime.wire.trajectory import FailedTrajectory, SampledTrajectory, TrajectoryId
from hetrl_runtime.wire.values import Outcome, ResumePoint, StepReport
from tests.runtime.trajectories import a_trajectory, delivered

GROUP_SIZE = 3
BATCH_SIZE = 6
LEASE_SECONDS = 20.0
WORKERS = ("w0", "w1", "w2")


class Life(RuleBasedStateMachine):
    """One run and all that may happen to it."""

    @initialize(
        eta=st.integers(0, 3),
        max_concurrent=st.integers(1, 20),
    )
    def start(self, eta: int, max_concurrent: int) -> None:
        self.eta = eta
        self.max_concurrent = max_concurrent
        self.now = 0.0
        self.epoch = 1
        self.state = self._a_state()
        self.state.begin(ResumePoint(), epoch=1)
        self.journal = list(history.entries(self.state, ""))
        self.worker_versions = dict.fromkeys(WORKERS, 0)
        self.in_hand: list[tuple[str, TrajectoryId, int, int]] = []
        self.history: list[list[TrajectoryId]] = []
        self.checkpoints = [ResumePoint()]
        self.needs_reference = False

    # What workers do

    @rule(worker=st.sampled_from(WORKERS), wanted=st.integers(1, 6))
    def lease(self, worker: str, wanted: int) -> None:
        version = self.worker_versions[worker]
        leases = self.state.lease(
            worker, worker_version=version, max_trajectories=wanted, now=self.now
        )
        if isinstance(leases, WorkerBehind):
            assert version < leases.needs_version <= self.state.version
            return
        ids = [identity for lease in leases for identity in lease.ids]
        assert len(ids) <= wanted
        self.in_hand += [(worker, identity, version, self.epoch) for identity in ids]
        self.journal.append(history.lease_given(worker, ids, worker_version=version))

    @rule(worker=st.sampled_from(WORKERS))
    def fetch_weights(self, worker: str) -> None:
        self.worker_versions[worker] = self.state.version

    @precondition(lambda self: self.in_hand)
    @rule(data=st.data(), is_scored=st.booleans())
    def deliver(self, data: st.DataObject, is_scored: bool) -> None:
        place = data.draw(st.integers(0, len(self.in_hand) - 1))
        worker, identity, began, epoch = self.in_hand.pop(place)
        ended = max(began, self.worker_versions[worker]) if epoch == self.epoch else began
        outcome = self._accept(
            a_trajectory(
                *identity, versions=(began, ended), epoch=epoch, process=worker, is_scored=is_scored
            )
        )
        if epoch != self.epoch:
            assert outcome is Outcome.FENCED
        elif outcome is Outcome.ACCEPTED:
            assert self.state.version - began <= self.eta
            assert is_scored or not self.needs_reference
        elif outcome is Outcome.UNSCORED:
            assert self.needs_reference
            assert not is_scored

    @precondition(lambda self: self.in_hand)
    @rule(data=st.data())
    def deliver_and_keep(self, data: st.DataObject) -> None:
        """A worker that missed the receipt sends again later."""
        entry = data.draw(st.sampled_from(self.in_hand))
        self.deliver(data, is_scored=data.draw(st.booleans()))
        self.in_hand.append(entry)

    @precondition(lambda self: self.in_hand)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.in_hand) - 1))
        worker, identity, _, epoch = self.in_hand.pop(place)
        self.state.fail(
            FailedTrajectory(
                group=identity.group,
                member=identity.member,
                epoch=epoch,
                process=worker,
                error="out of memory",
            )
        )
        if self.state.has_failed(identity.group):
            self.state.abandon(identity.group)
            self.journal.append(history.abandoned(identity.group))

    @precondition(lambda self: self.in_hand)
    @rule(data=st.data())
    def leave_unjudged(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.in_hand) - 1))
        worker, identity, _, epoch = self.in_hand.pop(place)
        outcome = self.state.leave_unjudged(
            FailedTrajectory(
                group=identity.group,
                member=identity.member,
                epoch=epoch,
                process=worker,
                error="the reward was not judged",
                unjudged="TimeLimit",
            )
        )
        if outcome is Outcome.UNJUDGED and self.state.lacks_rewards(identity.group):
            self.state.abandon(identity.group)
            self.journal.append(history.abandoned(identity.group))

    @rule(worker=st.sampled_from(WORKERS))
    def heartbeat(self, worker: str) -> None:
        holding = [identity for who, identity, _, _ in self.in_hand if who == worker]
        self.state.hold(worker, holding, now=self.now)

    @rule(worker=st.sampled_from(WORKERS))
    def die(self, worker: str) -> None:
        self.in_hand = [each for each in self.in_hand if each[0] != worker]
        self.state.release(worker)

    @rule(seconds=st.sampled_from([1.0, LEASE_SECONDS / 2, LEASE_SECONDS]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.state.expire(now=self.now)

    # What the trainer does

    @rule(discard=st.integers(0, 2))
    def train(self, discard: int) -> None:
        batch = self.state.batch()
        if not batch:
            return
        judged = Counter(each.group for each in batch)
        assert len(judged) == BATCH_SIZE // GROUP_SIZE
        assert min(judged.values()) >= FEWEST_JUDGED
        for each in batch:
            assert self.state.version - each.oldest_version <= self.eta
            assert each.newest_version <= self.state.version
            assert each.has_reference or not self.needs_reference
        ids = [each.id for each in batch]
        version, consumed, discarded = self.state.version + 1, ids[discard:], ids[:discard]
        done = self.state.commit(version, consumed=consumed, discarded=discarded)
        assert isinstance(done, Committed)
        self.journal.append(
            history.committed(version, consumed=consumed, discarded=discarded, report=StepReport())
        )
        self.history.append(consumed)
        self.checkpoints.append(done.resume)

    @rule()
    def step(self) -> None:
        """One quick worker fills a batch, where the others leave it anything to do."""
        version = self.state.version
        while not self.state.batch():
            leases = self.state.lease(
                "w0", worker_version=version, max_trajectories=3, now=self.now
            )
            assert not isinstance(leases, WorkerBehind)
            if not leases:
                return
            ids = [identity for lease in leases for identity in lease.ids]
            self.journal.append(history.lease_given("w0", ids, worker_version=version))
            for identity in ids:
                outcome = self._accept(
                    a_trajectory(
                        *identity,
                        versions=(version,),
                        epoch=self.epoch,
                        process="w0",
                        is_scored=True,
                    )
                )
                assert outcome is Outcome.ACCEPTED
        self.train(discard=0)

    @rule(data=st.data(), needs_reference=st.booleans())
    def restart_trainer(self, data: st.DataObject, needs_reference: bool) -> None:
        point = data.draw(st.sampled_from(self.checkpoints))
        self.epoch += 1
        self.needs_reference = needs_reference
        self.state.begin(
            ResumePoint.from_json(point.to_json()),
            epoch=self.epoch,
            needs_reference=needs_reference,
        )
        self.journal = list(history.entries(self.state, ""))
        del self.history[point.version :]
        del self.checkpoints[point.version + 1 :]
        # Weights of versions that no longer exist are fetched again.
        self.worker_versions = dict.fromkeys(WORKERS, point.version)

    @rule()
    def restart_coordinator(self) -> None:
        """The journal alone says what was accepted, what was consumed and what is open."""
        rebuilt = self._a_state()
        history.replay(rebuilt, self.journal, now=self.now)

        assert rebuilt.epoch == self.state.epoch
        assert rebuilt.resume_point() == self.state.resume_point()
        assert rebuilt.needs_reference is self.needs_reference
        assert {each.id for each in rebuilt.buffered()} == {
            each.id for each in self.state.buffered()
        }

    def _a_state(self) -> RunState:
        algorithm = AlgorithmSpec(
            max_staleness=self.eta, group_size=GROUP_SIZE, global_batch_size=BATCH_SIZE
        )
        return RunState(algorithm, max_concurrent=self.max_concurrent, lease_seconds=LEASE_SECONDS)

    def _accept(self, trajectory: SampledTrajectory) -> Outcome:
        found = delivered(trajectory)
        outcome = self.state.accept(found)
        if outcome is Outcome.ACCEPTED:
            self.journal.append(history.accepted(found))
        return outcome

    # What always holds

    @invariant()
    def nothing_is_trained_twice_on_the_surviving_history(self) -> None:
        trained = [identity for step in self.history for identity in step]
        assert len(trained) == len(set(trained))

    @invariant()
    def promises_stay_within_the_bound(self) -> None:
        in_flight = self.state.num_buffered + self.state.num_running + self.state.num_pending
        assert in_flight <= (self.eta + 1) * BATCH_SIZE
        assert self.state.num_running <= self.max_concurrent

    @invariant()
    def every_member_of_a_started_group_is_in_one_place(self) -> None:
        in_flight = self.state.num_buffered + self.state.num_running + self.state.num_pending
        assert in_flight % GROUP_SIZE == 0

    def teardown(self) -> None:
        """Whatever happened, one willing worker brings the run on: nothing is stuck or lost."""
        if not hasattr(self, "state"):
            return
        for _ in range(3):
            before = self.state.version
            self.wait(2 * LEASE_SECONDS)
            self.step()
            assert self.state.version == before + 1, "the run is stuck"
        consumed = {each.group for step in self.history for each in step}
        assert not consumed & set(self.state.resume_point().open_groups)


Life.TestCase.settings = settings(max_examples=120, stateful_step_count=60, deadline=None)
TestLife = pytest.mark.slow(Life.TestCase)
