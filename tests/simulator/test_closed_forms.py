"""Pipelines with closed-form results."""

from dataclasses import replace

import pytest

from hetrl_planner.problem.lengths import Constant, Uniform, lognormal_of_variation
from hetrl_planner.simulator.pipeline.pipeline import (
    InferenceStage,
    ParallelTraining,
    RolloutGroup,
    SharedGpus,
    TrainerSpec,
)
from tests.simulator.pipelines import a_pipeline, a_route, play, some_rollouts


def test_slow_trainer_sets_the_pace_and_never_waits() -> None:
    result = play(a_pipeline(train_seconds=10.0))
    assert result.samples_per_second == pytest.approx(32 / 10)
    assert result.step_seconds.mean == pytest.approx(10)
    assert result.trainer_idle_share == pytest.approx(0, abs=1e-9)


def test_slow_rollouts_give_places_over_latency() -> None:
    # Little's law: 64 places, 1 s each. η is wide, so the bound does not hold them back.
    pipeline = a_pipeline(
        batch=32, eta=50, train_seconds=0.001, lengths=Uniform(min_tokens=50, max_tokens=150)
    )
    result = play(pipeline, steps=120)
    assert result.samples_per_second == pytest.approx(64 / 1.0, rel=0.03)
    assert result.rollouts[0].idle_share == pytest.approx(0, abs=1e-6)
    assert result.rollouts[0].mean_running == pytest.approx(16, rel=1e-6)


def test_fixed_rate_replica_makes_as_many_tokens_with_any_places() -> None:
    # t(n) = n·t(1): processor sharing, 1/t(1) tokens a second.
    group = RolloutGroup(
        name="one",
        region="here",
        num_replicas=1,
        token_seconds=tuple(0.001 * running for running in range(1, 33)),
    )
    pipeline = a_pipeline(
        batch=16,
        eta=50,
        train_seconds=1e-6,
        rollouts=(group,),
        lengths=lognormal_of_variation(mean_tokens=100, variation=1, max_tokens=2000),
    )
    result = play(pipeline, steps=250)
    generated_per_second = result.generated_tokens / result.seconds
    assert generated_per_second == pytest.approx(1000, rel=0.03)


def test_synchronous_step_is_generation_then_scoring_then_training_then_weights() -> None:
    pipeline = a_pipeline(
        batch=64,
        eta=0,
        train_seconds=3.0,
        stages=(
            InferenceStage(name="reference", server_seconds=(0.1,) * 8, waits_for_batch=True),
            InferenceStage(name="critic", server_seconds=(0.1,) * 4, waits_for_batch=True),
        ),
        routes=(a_route(transfer_seconds=0.5, load_seconds=0.25),),
    )
    result = play(pipeline)
    # 64 places and 64 trajectories of 1 s; the slower stage takes 64·0.1/4 s.
    assert result.step_seconds.mean == pytest.approx(1.0 + 1.6 + 3.0 + 0.75)
    assert result.staleness.histogram == (64 * result.measured_steps,)
    assert result.trainer_idle_share == pytest.approx(1 - 3.0 / 6.35)


def test_prompts_are_read_one_after_the_other() -> None:
    group = some_rollouts(replicas=1, places=32, prefill_seconds=0.1)
    result = play(a_pipeline(eta=0, train_seconds=1.0, rollouts=(group,)))
    # All 32 prefills hold up everybody, then 100 tokens of 10 ms.
    assert result.step_seconds.mean == pytest.approx(32 * 0.1 + 1.0 + 1.0)


def test_two_waves_where_places_are_half_of_the_batch() -> None:
    result = play(a_pipeline(batch=128, eta=0, train_seconds=1.0))
    assert result.step_seconds.mean == pytest.approx(2 * 1.0 + 1.0)


def test_shared_gpus_do_one_thing_after_the_other() -> None:
    pipeline = a_pipeline(
        batch=64,
        eta=0,
        trainer=TrainerSpec(step_seconds=2.0, gpus=("pool",)),
        rollouts=(some_rollouts(gpus="pool"),),
        stages=(
            InferenceStage(
                name="reference", server_seconds=(0.5,) * 64, waits_for_batch=True, gpus="pool"
            ),
        ),
        shared_gpus=(SharedGpus(name="pool", switch_seconds=0.1),),
    )
    result = play(pipeline)
    # Three switches: to scoring, to training, back to generation.
    assert result.step_seconds.mean == pytest.approx(1.0 + 0.5 + 2.0 + 3 * 0.1)
    use = result.rollouts[0]
    assert use.yielded_share == pytest.approx((0.5 + 2.0 + 0.3) / 3.8)
    assert use.generating_share == pytest.approx(1.0 / 3.8)


def test_asynchronous_run_on_shared_gpus_takes_both_times_per_step() -> None:
    pipeline = a_pipeline(
        batch=64,
        eta=1,
        trainer=TrainerSpec(step_seconds=2.0, gpus=("pool",)),
        rollouts=(some_rollouts(gpus="pool"),),
        shared_gpus=(SharedGpus(name="pool"),),
    )
    assert play(pipeline).step_seconds.mean == pytest.approx(3.0)


def test_routes_on_one_link_take_turns_of_its_bandwidth() -> None:
    def step_seconds(*links: str) -> float:
        regions = [f"region {number}" for number, _ in enumerate(links)]
        pipeline = a_pipeline(
            batch=32,
            eta=0,
            rollouts=tuple(
                some_rollouts(name=region, region=region, replicas=1, places=16)
                for region in regions
            ),
            routes=tuple(
                a_route(region=region, link=link, transfer_seconds=1.0)
                for region, link in zip(regions, links, strict=True)
            ),
        )
        return play(pipeline).step_seconds.mean

    assert step_seconds("wan", "lan") == pytest.approx(1.0 + 1.0 + 1.0)
    assert step_seconds("wan", "wan") == pytest.approx(1.0 + 1.0 + 2.0)


def test_draining_costs_what_interruption_does_not() -> None:
    # Weights arrive while trajectories run: an uninterrupted replica waits for its longest.
    lengths = lognormal_of_variation(mean_tokens=100, variation=1.2, max_tokens=800)
    pipeline = a_pipeline(
        eta=4, lengths=lengths, train_seconds=0.2, routes=(a_route(load_seconds=0.05),)
    )
    fast = play(pipeline, steps=100)
    slow = play(replace(pipeline, is_interruptible=False), steps=100)
    assert slow.samples_per_second < fast.samples_per_second
    assert slow.rollouts[0].mean_running < fast.rollouts[0].mean_running


def test_streamed_minibatches_start_before_the_batch_is_whole() -> None:
    def step_seconds(*, streams: bool) -> float:
        trainer = TrainerSpec(step_seconds=2.0, minibatches=4, streams_minibatches=streams)
        pipeline = a_pipeline(
            batch=64, eta=0, lengths=Uniform(min_tokens=20, max_tokens=400), trainer=trainer
        )
        return play(pipeline).step_seconds.mean

    assert step_seconds(streams=True) < step_seconds(streams=False) - 0.5


def test_queue_smaller_than_a_minibatch_fills_again_between_minibatches() -> None:
    trainer = TrainerSpec(step_seconds=2.0, minibatches=4, streams_minibatches=True)
    found = play(a_pipeline(batch=64, group=1, eta=1, trainer=trainer, queue_capacity=8))
    assert found.ended_by == "steps"


def test_dollars_are_prices_times_time_and_egress_times_transfers() -> None:
    pipeline = a_pipeline(
        trainer=TrainerSpec(step_seconds=36.0, dollars_per_hour=10.0),
        rollouts=(some_rollouts(replicas=4, dollars_per_hour=5.0),),
        routes=(a_route(transferred_gib=2.0, egress_dollars_per_gib=0.05),),
        lengths=Constant(tokens=10),
    )
    dollars = play(pipeline, steps=20, warmup_steps=10).dollars
    assert dollars.gpus == pytest.approx(30.0 * 360 / 3600)
    assert dollars.egress == pytest.approx(10 * 2.0 * 0.05)
    assert dollars.per_thousand_samples == pytest.approx(1000 * (3.0 + 1.0) / 320)


def test_longer_tail_makes_a_synchronous_step_slower() -> None:
    def step_seconds(variation: float) -> float:
        lengths = lognormal_of_variation(mean_tokens=100, variation=variation, max_tokens=1600)
        return play(a_pipeline(batch=64, eta=0, lengths=lengths)).step_seconds.mean

    assert step_seconds(0) < step_seconds(0.5) < step_seconds(1) < step_seconds(2)


def test_critic_beside_the_actor_may_set_the_pace() -> None:
    trainer = TrainerSpec(
        step_seconds=2.0, beside=(ParallelTraining(name="critic", step_seconds=3.0),)
    )
    result = play(a_pipeline(batch=64, eta=0, trainer=trainer))
    assert result.step_seconds.mean == pytest.approx(1.0 + 3.0)
    assert result.trainer_idle_share == pytest.approx(0.5)


def test_servers_of_one_stage_each_work_at_their_own_speed() -> None:
    # In 0.8 s the fast server scores eight and the slow one two.
    stage = InferenceStage(name="reward", server_seconds=(0.1, 0.4), waits_for_batch=True)
    result = play(a_pipeline(batch=10, group=1, eta=0, train_seconds=1.0, stages=(stage,)))
    assert result.step_seconds.mean == pytest.approx(1.0 + 0.8 + 1.0)


def test_places_held_by_a_full_queue_are_reused_at_once() -> None:
    # No queue at all: 64 finished wait in their places while the trainer has the first 64.
    pipeline = a_pipeline(batch=64, group=1, eta=None, train_seconds=1.5, queue_capacity=0)
    result = play(pipeline)
    # Training sets the pace, for generation starts again when training does.
    assert result.step_seconds.mean == pytest.approx(1.5)
    assert result.rollouts[0].mean_running == pytest.approx(16 * 1.0 / 1.5)
