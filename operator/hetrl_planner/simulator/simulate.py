"""A pipeline played to its last step: the simulator's one public function."""

import numpy as np

from hetrl_planner.simulator.coordinator import Coordinator
from hetrl_planner.simulator.limits import at_least
from hetrl_planner.simulator.meter import Meter
from hetrl_planner.simulator.parts import assemble
from hetrl_planner.simulator.pipeline import Pipeline
from hetrl_planner.simulator.result import EndedBy, SimulationResult

MAX_EVENTS = 50_000_000
"""Ends a run that makes no progress, such as one whose every response is too old."""


def simulate(
    pipeline: Pipeline,
    *,
    steps: int,
    generator: np.random.Generator,
    warmup_steps: int | None = None,
    max_events: int = MAX_EVENTS,
    max_seconds: float = float("inf"),
) -> SimulationResult:
    """Play a pipeline until it has published so many versions.

    Equal pipelines and equally seeded generators give equal results.

    Args:
        pipeline: what to play.
        steps: versions to publish.
        generator: where lengths, filtered groups and chance failures come from, each from a
            stream of its own.
        warmup_steps: first versions that are not measured; None: η + 2, or fewer where that
            is half of the steps.
        max_events: ends the run early.
        max_seconds: of simulated time; ends the run early.

    Raises:
        ValueError: a number is out of its range, or nothing is left after the warm-up.
    """
    at_least("steps", steps, 1)
    at_least("maxEvents", max_events, 1)
    if warmup_steps is None:
        warmup_steps = min(steps // 2, (pipeline.max_staleness or 0) + 2)
    at_least("warmupSteps", warmup_steps, 0)
    if warmup_steps >= steps:
        raise ValueError(f"warmupSteps must be < steps ({steps}), got {warmup_steps}")
    parts = assemble(pipeline, generator)
    meter = Meter(
        pipeline,
        parts,
        warmup_steps=warmup_steps,
        last_step=steps,
        on_last_step=parts.calendar.stop,
    )
    parts.trainer.on_step = meter.record_step
    parts.start()
    if max_seconds < float("inf"):
        parts.calendar.after(max_seconds, parts.calendar.stop)
    parts.calendar.play(max_events=max_events)
    ended_by: EndedBy = "stalled"
    if parts.coordinator.version >= steps:
        ended_by = "steps"
    elif parts.calendar.now >= max_seconds:
        ended_by = "time"
    elif parts.calendar.events >= max_events:
        ended_by = "events"
    return meter.result(ended_by, reason=_reason(ended_by, parts.coordinator))


def _reason(ended_by: EndedBy, coordinator: Coordinator) -> str:
    said = {
        "steps": "",
        "stalled": "nothing more could happen",
        "events": "the limit of events was reached",
        "time": "the limit of simulated seconds was reached",
    }[ended_by]
    if not said:
        return ""
    return (
        f"{said} at version {coordinator.version}, with {coordinator.num_running} trajectories "
        f"running, {coordinator.num_buffered} buffered and room for {coordinator.capacity()} more"
    )
