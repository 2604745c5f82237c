"""Lost replicas and trainers, and the cost of losing them."""

import numpy as np
import pytest

from hetrl_planner.problem.lengths import Constant, lognormal_of_variation
from hetrl_planner.simulator.events.trajectory import LeaseEnd, PromptGroup, Trajectory
from hetrl_planner.simulator.parts import assemble
from hetrl_planner.simulator.pipeline.pipeline import Failures, ReplicaLoss, TrainerSpec
from tests.simulator.pipelines import a_pipeline, a_route, play, some_rollouts


def test_work_of_a_lost_replica_is_leased_again_at_expiry() -> None:
    loss = ReplicaLoss(group="rollouts", replica=0, at_seconds=0.5, returns_after_seconds=None)
    # Two replicas of 16 places, a batch of 32: half of the first batch is lost half way.
    pipeline = a_pipeline(
        eta=0,
        train_seconds=1.0,
        rollouts=(some_rollouts(replicas=2),),
        lease_seconds=3.0,
        failures=Failures(replicas=(loss,)),
    )
    result = play(pipeline, steps=10)
    assert result.work.expired == 16
    assert result.timeline[0].ended_at_seconds == pytest.approx(0.5 + 3.0 + 1.0 + 1.0)
    # From then on one replica makes both halves of each batch.
    assert result.timeline[-1].seconds == pytest.approx(2.0 + 1.0)
    assert result.rollouts[0].lost_share == pytest.approx(0.5)


def test_replica_that_returns_is_as_good_as_before() -> None:
    losses = tuple(
        ReplicaLoss(group="rollouts", replica=each, at_seconds=5.0, returns_after_seconds=2.0)
        for each in range(4)
    )
    pipeline = a_pipeline(
        train_seconds=0.4,
        lease_seconds=1.0,
        routes=(a_route(load_seconds=0.2),),
        failures=Failures(replicas=losses),
    )
    undisturbed = play(a_pipeline(train_seconds=0.4, routes=pipeline.routes), steps=100)
    result = play(pipeline, steps=100)
    assert result.failures.replicas == 4
    assert result.timeline[-1].seconds == pytest.approx(undisturbed.timeline[-1].seconds, rel=0.05)
    assert result.simulated_seconds > undisturbed.simulated_seconds + 2.0


def test_chance_takes_the_share_of_time_that_its_rates_say() -> None:
    # Away for 5 s in 25 s on average.
    failures = Failures(replica_mean_seconds=20.0, replica_return_seconds=5.0)
    pipeline = a_pipeline(
        lengths=Constant(tokens=10),
        train_seconds=5.0,
        lease_seconds=1.0,
        failures=failures,
        rollouts=(some_rollouts(replicas=20),),
    )
    result = play(pipeline, steps=150)
    # The next failure is drawn from the last one, not from the return: 5 s in 20 s, less overlap.
    assert result.rollouts[0].lost_share == pytest.approx(0.22, abs=0.03)


def test_lost_trainer_trains_again_from_its_checkpoint() -> None:
    pipeline = a_pipeline(
        lengths=Constant(tokens=10),
        eta=1,
        trainer=TrainerSpec(step_seconds=1.0, checkpoint_every_steps=5),
        failures=Failures(trainer_at_seconds=(12.55,), trainer_restart_seconds=3.0),
    )
    result = play(pipeline, steps=20)
    # 0.1 s for the first batch, then a version a second: twelve when it is lost, ten kept.
    assert result.failures.steps == 2
    assert [each.version for each in result.timeline] == [*range(1, 13), *range(11, 21)]
    again = result.timeline[12]
    assert again.ended_at_seconds == pytest.approx(12.55 + 3.0 + 1.0 + 0.1, abs=0.11)
    assert result.work.consumed == 22 * 32
    assert result.work.fenced > 0
    assert result.staleness.max <= 1


def test_trajectories_of_the_surviving_history_are_trained_on() -> None:
    # Every version is kept: nothing that waits is from a lost history, so nothing is fenced
    # but what was running.
    pipeline = a_pipeline(
        lengths=Constant(tokens=10),
        train_seconds=2.0,
        eta=2,
        failures=Failures(trainer_at_seconds=(9.0,), trainer_restart_seconds=1.0),
    )
    result = play(pipeline, steps=10)
    assert result.failures.steps == 0
    assert result.work.fenced == 0
    # Version 5 was half done: 1 s lost, 1 s to restart.
    assert result.timeline[4].seconds == pytest.approx(2.0 + 1.0 + 1.0, abs=0.15)


@pytest.mark.parametrize(
    ("changes", "ended_by"),
    [
        pytest.param(
            {
                "failures": Failures(
                    replicas=tuple(
                        ReplicaLoss(group="rollouts", replica=each, at_seconds=3.0)
                        for each in range(4)
                    )
                )
            },
            "stalled",
            id="every replica lost for good",
        ),
        pytest.param(
            {
                "lengths": Constant(tokens=10),
                "trainer": TrainerSpec(step_seconds=1.0, checkpoint_every_steps=50),
                "failures": Failures(trainer_mean_seconds=10.0, trainer_restart_seconds=1.0),
            },
            "events",
            id="a trainer that never reaches its next checkpoint",
        ),
        pytest.param(
            {"renews_leases": False, "lease_seconds": 0.5},
            "events",
            id="leases shorter than every response",
        ),
        pytest.param(
            {
                "eta": 0,
                "lengths": lognormal_of_variation(mean_tokens=100, variation=1, max_tokens=1000),
                "max_seconds": 7.0,
            },
            "time",
            id="no time left",
        ),
    ],
)
@pytest.mark.slow
def test_run_that_cannot_end_says_how_far_it_came(
    changes: dict[str, object], ended_by: str
) -> None:
    limits = {"max_stall_events": 2000}
    limits |= {name: changes.pop(name) for name in ("max_seconds",) if name in changes}
    result = play(a_pipeline(**changes), steps=1000, **limits)  # type: ignore[arg-type]
    assert result.ended_by == ended_by
    assert f"at version {result.steps}, with" in result.reason


def test_replica_that_returns_early_owns_up_to_what_it_lost() -> None:
    loss = ReplicaLoss(group="rollouts", replica=0, at_seconds=0.5, returns_after_seconds=0.25)
    pipeline = a_pipeline(
        eta=0,
        train_seconds=1.0,
        rollouts=(some_rollouts(replicas=2),),
        lease_seconds=30.0,
        failures=Failures(replicas=(loss,)),
    )
    first = play(pipeline, steps=3).timeline[0]
    assert first.ended_at_seconds == pytest.approx(0.5 + 0.25 + 1.0 + 1.0)


@pytest.mark.parametrize("versions", [(9, 10), (10, 9), (10, 10)], ids=str)
def test_trajectories_of_the_lost_history_are_fenced_at_any_token(
    versions: tuple[int, int],
) -> None:
    parts = assemble(a_pipeline(group=1, eta=2), np.random.default_rng(1))
    sampled = Trajectory(PromptGroup(), 9, 100)
    parts.ledger.move_to(10)
    parts.ledger.lease(sampled, parts.groups[0][0])
    sampled.versions = versions
    parts.coordinator.deliver(sampled)
    parts.coordinator.rewind(9, handed=[])
    assert sampled not in parts.ledger.accepted
    assert parts.ledger.endings[LeaseEnd.FENCED] == 1
