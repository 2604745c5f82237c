"""Pipelines for tests, with defaults: a test names only what it is about."""

from typing import Any

import numpy as np

from hetrl_planner.problem.lengths import Constant, Lengths
from hetrl_planner.simulator.measurement.result import SimulationResult
from hetrl_planner.simulator.pipeline.pipeline import (
    Pipeline,
    RolloutGroup,
    TrainerSpec,
    WeightRoute,
)
from hetrl_planner.simulator.simulate import simulate


def a_pipeline(
    *,
    batch: int = 32,
    group: int = 4,
    eta: int | None = 2,
    lengths: Lengths | None = None,
    train_seconds: float = 1.0,
    trainer: TrainerSpec | None = None,
    rollouts: tuple[RolloutGroup, ...] | None = None,
    **changes: Any,
) -> Pipeline:
    return Pipeline(
        batch_size=batch,
        group_size=group,
        max_staleness=eta,
        lengths=lengths or Constant(tokens=100),
        trainer=trainer or TrainerSpec(step_seconds=train_seconds),
        rollouts=rollouts or (some_rollouts(),),
        **changes,
    )


def some_rollouts(
    *,
    name: str = "rollouts",
    replicas: int = 4,
    places: int = 16,
    token_seconds: float = 0.01,
    region: str = "here",
    **changes: Any,
) -> RolloutGroup:
    """Replicas whose places do not feel each other."""
    return RolloutGroup(
        name=name,
        region=region,
        num_replicas=replicas,
        token_seconds=(token_seconds,) * places,
        **changes,
    )


def a_route(**changes: Any) -> WeightRoute:
    return WeightRoute(region=changes.pop("region", "here"), **changes)


def play(pipeline: Pipeline, *, steps: int = 40, seed: int = 1, **limits: Any) -> SimulationResult:
    return simulate(pipeline, steps=steps, generator=np.random.default_rng(seed), **limits)
