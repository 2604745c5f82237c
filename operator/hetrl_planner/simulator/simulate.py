"""Simulation of a pipeline to its last step: the simulator's one public function."""

from math import inf

import numpy as np

from hetrl_planner.problem.checks import at_least
from hetrl_planner.problem.gc_tuning import rare_collections
from hetrl_planner.simulator.coordination.ledger import RunLedger
from hetrl_planner.simulator.events.calendar import Calendar
from hetrl_planner.simulator.measurement.meter import Meter
from hetrl_planner.simulator.measurement.result import EndedBy, SimulationResult
from hetrl_planner.simulator.parts import assemble
from hetrl_planner.simulator.pipeline.pipeline import Pipeline

EVENTS_PER_TRAJECTORY = 100
"""Far more than one trajectory takes, discarded ones included; sets ``max_stall_events``."""


@rare_collections()
def simulate(
    pipeline: Pipeline,
    *,
    steps: int,
    generator: np.random.Generator,
    warmup_steps: int | None = None,
    max_stall_events: int | None = None,
    max_seconds: float = inf,
) -> SimulationResult:
    """Simulate a pipeline until it has published so many versions.

    Equal pipelines and equally seeded generators give equal results.

    Args:
        pipeline: the pipeline to simulate.
        steps: versions to publish.
        generator: the source of lengths, filtered groups and random failures, each with a
            stream of its own.
        warmup_steps: first versions that are not measured; None: η + 2, or fewer where that
            is half of the steps.
        max_stall_events: events without a newer version after which the run ends, as in a run
            whose every response is too old; None: by batch, places and checkpoints.
        max_seconds: of simulated time; ends the run early.

    Raises:
        ValueError: a number is out of its range, or nothing is left after the warm-up.
    """
    at_least("steps", steps, 1)
    if warmup_steps is None:
        warmup_steps = min(steps // 2, (pipeline.max_staleness or 0) + 2)
    at_least("warmupSteps", warmup_steps, 0)
    if warmup_steps >= steps:
        raise ValueError(f"warmupSteps must be < steps ({steps}), got {warmup_steps}")
    parts = assemble(pipeline, generator)
    meter = Meter(pipeline, parts, warmup_steps=warmup_steps)
    end = _End(
        parts.calendar,
        parts.ledger,
        steps=steps,
        max_stall_events=max_stall_events or _max_events(pipeline),
    )

    def record(ages: list[int]) -> None:
        meter.record_step(ages)
        end.record_version()

    parts.trainer.on_step = record
    parts.start()
    if max_seconds < inf:
        parts.calendar.after(max_seconds, end.end_early)
    parts.calendar.play()
    return meter.result(end.ended_by, reason=end.reason)


def _max_events(pipeline: Pipeline) -> int:
    """Return the events within which even a lost trainer reaches a newer version."""
    again = pipeline.trainer.checkpoint_every_steps * pipeline.batch_size
    return EVENTS_PER_TRAJECTORY * (pipeline.num_places + pipeline.batch_size) + 10 * again


class _End:
    """The end of a run, and its reason."""

    def __init__(
        self, calendar: Calendar, ledger: RunLedger, *, steps: int, max_stall_events: int
    ) -> None:
        self._calendar = calendar
        self._ledger = ledger
        self._steps = steps
        self._max_events = max_stall_events
        self._newest = 0
        self._is_early = False
        calendar.allow(max_stall_events)

    def record_version(self) -> None:
        """Record a version; only one that was never reached before is progress."""
        version = self._ledger.version
        if version > self._newest:
            self._newest = version
            self._calendar.allow(self._max_events if version < self._steps else 0)

    def end_early(self) -> None:
        """End the run now."""
        self._is_early = True
        self._calendar.allow(0)

    @property
    def ended_by(self) -> EndedBy:
        """The cause of the end."""
        if self._ledger.version >= self._steps:
            return "steps"
        if self._is_early:
            return "time"
        return "events" if self._calendar.has_more else "stalled"

    @property
    def reason(self) -> str:
        """The reason for an end before the last step; empty if there was none."""
        said = {
            "steps": "",
            "stalled": "nothing more could happen",
            "events": f"no newer version was trained in {self._max_events} events",
            "time": "the limit of simulated seconds was reached",
        }[self.ended_by]
        now = self._ledger
        return said and (
            f"{said}, at version {now.version}, with {len(now.leased)} trajectories running, "
            f"{len(now.accepted)} buffered and room for {now.capacity()} more"
        )
