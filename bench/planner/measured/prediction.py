"""A row's number as the cost model prices it, or as the simulator plays it."""

from dataclasses import replace

import numpy as np

from bench.planner.measured.calibration import Parameters
from bench.planner.measured.case import (
    Gain,
    InferredLength,
    Measured,
    Phases,
    Run,
    StepTime,
    Transfer,
)
from bench.planner.measured.layouts import (
    LATENCY_SECONDS,
    REGION,
    constants,
    evaluated,
    evaluator_of,
    layout_of,
)
from bench.planner.measured.pipeline import pipeline_of
from hetrl_core.fleet.snapshot import ClusterSnapshot, Link
from hetrl_core.task import Task
from hetrl_planner.cost.network import weight_sync
from hetrl_planner.layout.evaluation import Evaluation, Misfit
from hetrl_planner.simulator.simulate import simulate

SEED = 1
MEASURED_STEPS = 6


def predicted(measured: Measured, parameters: Parameters) -> float:
    """Return the number that a row's source has measured."""
    match measured:
        case Transfer():
            return _transfer_seconds(measured, parameters)
        case Gain():
            return played(measured.slower, parameters) / played(measured.faster, parameters)
        case StepTime(run=run, is_played=True):
            return played(run, parameters)
        case StepTime(run=run):
            return priced(run, parameters).step_seconds


def phases(run: Run, parameters: Parameters) -> Phases:
    """Return what a synchronous step consists of."""
    found = priced(run, parameters)
    return Phases(
        generation=found.tasks[Task.ACTOR_GENERATION].seconds,
        training=found.training_side_seconds,
    )


def priced(run: Run, parameters: Parameters) -> Evaluation:
    """Return what the cost model says of a run as it was split."""
    run = _with_length(run, parameters)
    with constants(run, parameters):
        return evaluated(run, evaluator_of(run, parameters))


def played(run: Run, parameters: Parameters) -> float:
    """Return the mean seconds of a step when a run is played forward."""
    run = _with_length(run, parameters)
    with constants(run, parameters):
        pipeline = pipeline_of(run, parameters)
    warmup_steps = run.work.max_staleness + 2
    result = simulate(
        pipeline,
        steps=warmup_steps + MEASURED_STEPS,
        warmup_steps=warmup_steps,
        generator=np.random.default_rng(SEED),
    )
    assert result.ended_by == "steps", result.reason
    return result.step_seconds.mean


def response_tokens(length: InferredLength, parameters: Parameters) -> int:
    """Return the mean response with which training takes as long as published."""
    low, high = 1, length.run.work.max_response_tokens
    while low < high:
        middle = (low + high) // 2
        run = responding(length.run, middle)
        evaluator = evaluator_of(run, parameters)
        trained = layout_of(run, evaluator.devices).task(Task.ACTOR_TRAINING)
        is_long = evaluator.training_seconds(trained) >= length.training_seconds
        low, high = (low, middle) if is_long else (middle + 1, high)
    return low


def _with_length(run: Run, parameters: Parameters) -> Run:
    return responding(run, response_tokens(run.length, parameters)) if run.length else run


def responding(run: Run, tokens: int) -> Run:
    """Return a run with another mean response."""
    return replace(run, work=replace(run.work, response_tokens=tokens))


def misfit(run: Run, parameters: Parameters) -> str | None:
    """Return why our own trainer and engines could not run a split in the GPUs' memory."""
    run = _with_length(run, parameters)
    evaluator = evaluator_of(run, parameters, memory_bytes=run.kind.memory_bytes)
    found = evaluator.evaluate(layout_of(run, evaluator.devices))
    return found.reason if isinstance(found, Misfit) else None


def _transfer_seconds(transfer: Transfer, parameters: Parameters) -> float:
    """Return what a rollout beside the trainer waits for its weights."""
    reached = parameters.weights_link_share * transfer.link_bytes_per_second
    link = Link(
        source=REGION, target=REGION, bytes_per_second=reached, latency_seconds=LATENCY_SECONDS
    )
    snapshot = ClusterSnapshot(gpu_kinds=(), machines=(), links=(link,))
    sync = weight_sync(
        transfer.size_bytes, snapshot, trainer_shares={REGION: 1.0}, rollout_region=REGION
    )
    return sync.total_seconds
