"""The staleness bound in simulations, with and without the strict check."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_planner.problem.lengths import Empirical, Lengths, lognormal_of_variation
from hetrl_planner.simulator.pipeline.pipeline import (
    Failures,
    InferenceStage,
    Pipeline,
    ReplicaLoss,
    TrainerSpec,
)
from hetrl_planner.simulator.pipeline.rates import rollouts_of_rates
from tests.simulator.pipelines import a_pipeline, a_route, play, some_rollouts

LONG_TAIL = lognormal_of_variation(mean_tokens=100, variation=2, max_tokens=5000)


def test_strict_check_keeps_what_admission_alone_does_not() -> None:
    pipeline = a_pipeline(eta=2, lengths=LONG_TAIL, train_seconds=0.3)
    checked = play(pipeline, steps=100)
    unchecked = play(replace(pipeline, checks_consumption=False), steps=100)
    assert checked.staleness.max == 2
    assert checked.work.rejected + checked.work.withdrawn > 0
    assert unchecked.staleness.max > 2
    assert unchecked.work.discarded == 0


@pytest.mark.parametrize("eta", [0, 1, 2, 4, 8])
def test_slower_trainer_trains_on_work_as_old_as_the_bound(eta: int) -> None:
    # Admission lets rollouts run ahead until η batches wait.
    result = play(a_pipeline(eta=eta, train_seconds=5.0), steps=60)
    assert result.staleness.mean == pytest.approx(eta, abs=0.05)


def test_queue_holds_rollouts_back_without_a_bound() -> None:
    def mean(capacity: int) -> float:
        rollouts = rollouts_of_rates(
            concurrency=32, batch_size=32, rate_ratio=8, mean_tokens=LONG_TAIL.mean_tokens
        )
        pipeline = Pipeline(
            batch_size=32,
            group_size=1,
            max_staleness=None,
            lengths=LONG_TAIL,
            rollouts=(rollouts,),
            trainer=TrainerSpec(step_seconds=1.0),
            queue_capacity=capacity,
        )
        return play(pipeline, steps=100).staleness.mean

    assert mean(0) < mean(64) < mean(128)
    assert mean(128) - mean(64) == pytest.approx(2, abs=0.4)


def test_synchronous_run_is_never_stale() -> None:
    assert play(a_pipeline(eta=0, lengths=LONG_TAIL)).staleness.histogram[1:] == ()


def test_interrupted_work_is_as_old_as_its_oldest_token() -> None:
    # Eight fast places make a version every 0.1 s; one slow response takes 2 s.
    fast = some_rollouts(name="fast", replicas=1, places=8, token_seconds=0.001)
    slow = some_rollouts(name="slow", replicas=1, places=1, token_seconds=0.02)
    pipeline = a_pipeline(batch=8, group=1, eta=100, rollouts=(fast, slow), train_seconds=1e-3)
    result = play(pipeline, steps=200)
    assert 18 <= result.staleness.max <= 21
    assert result.staleness.mean < result.staleness.max / 3


def test_groups_that_stay_together_wait_less_for_a_slow_replica() -> None:
    # Member by member, every group has one on the slow replica and waits for it.
    slow = some_rollouts(name="slow", replicas=1, places=32, token_seconds=0.1)
    fast = some_rollouts(name="fast", replicas=3, places=32, token_seconds=0.01)
    pipeline = a_pipeline(batch=32, group=4, eta=4, rollouts=(slow, fast), train_seconds=0.2)
    apart = play(pipeline, steps=100)
    together = play(replace(pipeline, leases_groups=True), steps=100)
    assert together.samples_per_second > 1.2 * apart.samples_per_second


def test_seed_fixes_the_run() -> None:
    pipeline = a_pipeline(
        lengths=LONG_TAIL,
        filtered_share=0.1,
        failures=Failures(replica_mean_seconds=30, replica_return_seconds=2),
    )
    assert play(pipeline, seed=7) == play(pipeline, seed=7)
    assert play(pipeline, seed=7) != play(pipeline, seed=8)


@st.composite
def failures(draw: st.DrawFn) -> Failures:
    loss = ReplicaLoss(
        group="rollouts",
        replica=0,
        at_seconds=draw(st.floats(0, 9)),
        returns_after_seconds=draw(st.sampled_from([None, 0.0, 1.0])),
    )
    return Failures(
        replicas=(loss,),
        trainer_at_seconds=draw(st.sampled_from([(), (4.0,), (1.0, 6.0)])),
        trainer_restart_seconds=draw(st.floats(0, 3)),
        replica_mean_seconds=draw(st.sampled_from([None, 10.0])),
        replica_return_seconds=0.5,
    )


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    group = draw(st.sampled_from([1, 2, 4]))
    lengths: Lengths = Empirical(
        tokens=tuple(draw(st.lists(st.integers(1, 400), min_size=1, max_size=6)))
    )
    places = draw(st.integers(1, 12))
    replicas = draw(st.integers(1, 4))
    seconds = st.floats(0, 2)
    return a_pipeline(
        batch=group * draw(st.integers(1, 6)),
        group=group,
        eta=draw(st.integers(0, 4)),
        lengths=lengths,
        train_seconds=draw(st.floats(0.05, 3)),
        rollouts=(
            some_rollouts(
                replicas=replicas,
                places=places,
                token_seconds=0.01,
                upload_seconds=draw(st.sampled_from([0.0, 0.1])),
            ),
            some_rollouts(
                name="far",
                region="there",
                replicas=1,
                places=places,
                token_seconds=0.02,
                prefill_seconds=0.01,
            ),
        ),
        routes=(
            a_route(load_seconds=draw(seconds)),
            a_route(region="there", transfer_seconds=draw(seconds), load_seconds=draw(seconds)),
        ),
        stages=draw(
            st.sampled_from(
                [
                    (),
                    (InferenceStage(name="reward", server_seconds=(0.01,)),),
                    (
                        InferenceStage(
                            name="reward", server_seconds=(0.01, 0.02), waits_for_batch=True
                        ),
                    ),
                ]
            )
        ),
        is_interruptible=draw(st.booleans()),
        leases_groups=draw(st.booleans()) and places >= group,
        checks_consumption=draw(st.booleans()),
        queue_capacity=draw(st.sampled_from([None, 0, 8, 64])),
        renews_leases=draw(st.booleans()),
        lease_seconds=draw(st.floats(0.5, 20)),
        filtered_share=draw(st.sampled_from([0.0, 0.2])),
        failures=draw(failures()),
    )


@settings(max_examples=20, deadline=None)
@given(pipelines(), st.integers(0, 3))
def test_leases_end_once_and_checked_runs_keep_their_bound(pipeline: Pipeline, seed: int) -> None:
    result = play(pipeline, steps=8, seed=seed, warmup_steps=0, max_stall_events=1000)
    work = result.work
    ended = work.consumed + work.discarded + work.buffered + work.running
    assert work.granted == ended
    assert work.consumed == (result.steps + result.failures.steps) * pipeline.batch_size
    if pipeline.checks_consumption:
        assert pipeline.max_staleness is not None
        assert result.staleness.max <= pipeline.max_staleness
    for use in result.rollouts:
        shares = (
            use.generating_share,
            use.idle_share,
            use.weights_share,
            use.yielded_share,
            use.lost_share,
        )
        assert all(-1e-9 <= share <= 1 + 1e-9 for share in shares)
