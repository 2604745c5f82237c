"""Measurement of a simulation version by version, and its result.

The parts count; ``measure`` computes figures from the counts.
"""

from collections import Counter

from hetrl_planner.simulator.measurement import measure
from hetrl_planner.simulator.measurement.result import (
    EndedBy,
    FailureCounts,
    RolloutUse,
    SimulationResult,
    StepRecord,
)
from hetrl_planner.simulator.parts import Parts
from hetrl_planner.simulator.pipeline.pipeline import Pipeline


class Meter:
    """A recorder of versions, which remembers the end of the warm-up."""

    def __init__(self, pipeline: Pipeline, parts: Parts, *, warmup_steps: int) -> None:
        self._pipeline = pipeline
        self._parts = parts
        self._warmup_steps = warmup_steps
        self._ages: Counter[int] = Counter()
        self._timeline: list[StepRecord] = []
        self._start = measure.totals(parts)
        self._warm = self._start if warmup_steps == 0 else None
        self._previous = self._start

    def record_step(self, ages: list[int]) -> None:
        """Record a version and the staleness of its trajectories."""
        before, self._previous = self._previous, measure.totals(self._parts)
        version = self._parts.ledger.version
        self._timeline.append(self._record(version, ages, before, self._previous))
        if self._warm is not None:
            self._ages.update(ages)
        elif version >= self._warmup_steps:
            self._warm = self._previous

    def result(self, ended_by: EndedBy, *, reason: str) -> SimulationResult:
        """Return the figures since the warm-up, or since the start if it never ended."""
        pipeline, parts = self._pipeline, self._parts
        before, after = self._warm or self._start, measure.totals(parts)
        version = parts.ledger.version
        measured_steps = max(0, version - self._warmup_steps) if self._warm else 0
        samples = (measured_steps if self._warm else version) * pipeline.batch_size
        seconds = after.now - before.now
        gib, egress = measure.transferred(parts.routes, before, after)
        lost_seconds = after.trainer_lost - before.trainer_lost
        # A run that ends at once has no shares of its time.
        per_second = 1 / seconds if seconds else 0.0
        return SimulationResult(
            ended_by=ended_by,
            reason=reason,
            steps=version,
            measured_steps=measured_steps,
            seconds=seconds,
            samples_per_second=samples * per_second,
            tokens_per_second=(after.consumed_tokens - before.consumed_tokens) * per_second,
            step_seconds=measure.spread(
                [each.seconds for each in self._timeline if each.ended_at_seconds > before.now]
            ),
            staleness=measure.staleness_result(self._ages),
            trainer_idle_share=measure.idle_share(
                after.trainer_busy - before.trainer_busy + lost_seconds, seconds=seconds
            ),
            trainer_lost_share=lost_seconds * per_second,
            rollouts=self._rollout_uses(before, after),
            stages=tuple(
                measure.stage_use(stage, last - first, seconds=seconds)
                for stage, first, last in zip(
                    parts.stages, before.stages, after.stages, strict=True
                )
            ),
            generated_tokens=after.generated_tokens - before.generated_tokens,
            discarded_tokens=after.discarded_tokens - before.discarded_tokens,
            transferred_gib=gib,
            dollars=measure.dollars(pipeline, egress=egress, seconds=seconds, samples=samples),
            work=measure.work_counts(parts.ledger),
            failures=FailureCounts(
                replicas=parts.outages.num_replica_losses,
                trainers=parts.outages.num_trainer_losses,
                steps=parts.trainer.num_lost_steps,
            ),
            events=parts.calendar.events,
            simulated_seconds=after.now,
            timeline=tuple(self._timeline),
        )

    def _record(
        self, version: int, ages: list[int], before: measure.Totals, after: measure.Totals
    ) -> StepRecord:
        seconds = after.now - before.now
        uses = self._rollout_uses(before, after)
        return StepRecord(
            version=version,
            ended_at_seconds=after.now,
            seconds=seconds,
            mean_staleness=sum(ages) / len(ages),
            trainer_idle_share=measure.idle_share(
                after.trainer_busy - before.trainer_busy, seconds=seconds
            ),
            rollout_idle_share=sum(each.replicas * each.idle_share for each in uses)
            / sum(each.replicas for each in uses),
        )

    def _rollout_uses(
        self, before: measure.Totals, after: measure.Totals
    ) -> tuple[RolloutUse, ...]:
        return tuple(
            measure.rollout_use(spec, first, last, seconds=after.now - before.now)
            for spec, first, last in zip(
                self._pipeline.rollouts, before.groups, after.groups, strict=True
            )
        )
