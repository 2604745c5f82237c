"""Observation of a trainer's steps: durations, metrics, the process's status, and spans.

``loop`` has the steps themselves.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from hetrl_runtime.metrics.trainer import TrainerMetrics
from hetrl_runtime.tracing.current import active, current_span
from hetrl_runtime.tracing.span import Tracer
from hetrl_runtime.trainer.batch_checks import Checked
from hetrl_runtime.trainer.guards.not_finite import Skipped, Source, named
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import ProcessStatus, StepReport

log = logging.getLogger(__name__)


class StepObserver:
    """Measurements of the step that is under way, and their sums over all steps."""

    def __init__(self, metrics: TrainerMetrics, tracer: Tracer) -> None:
        self.status = ProcessStatus()
        """Of the process, after its last committed step."""

        self._metrics = metrics
        for source in Source:
            metrics.skipped_steps.labels(source)
        self._tracer = tracer
        self._started_at = 0.0
        self._wait_seconds = 0.0
        self._step_seconds = 0.0

    @contextmanager
    def step(self, version: int) -> Iterator[None]:
        """Observe the step that trains on ``version``, and the checkpoint after it."""
        with active(self._tracer.root("step", {"hetrl.version": version})):
            self._started_at = time.monotonic()
            yield

    def received(self) -> None:
        """Note that the batch is here."""
        self._wait_seconds = time.monotonic() - self._started_at

    def checked(self, checked: Checked, *, version: int) -> None:
        """Describe the batch; link the step's span to those of its traced trajectories."""
        span = current_span()
        span.note(
            {
                "hetrl.trajectories": len(checked.admitted),
                "hetrl.discarded": len(checked.discarded),
                "hetrl.tokens": checked.num_tokens,
            }
        )
        for each in checked.admitted:
            if each.traceparent:
                attributes = {
                    "hetrl.group": each.group,
                    "hetrl.member": each.member,
                    "hetrl.staleness": version - each.oldest_version,
                }
                span.link([each.traceparent], attributes)

    def skipped(
        self, skipped: Sequence[Skipped], ids: Sequence[TrajectoryId], *, version: int
    ) -> None:
        """Count and log the optimizer steps of ``version`` that were not made."""
        for each in skipped:
            self._metrics.skipped_steps.labels(each.source).inc()
            log.warning(
                "step skipped: version=%d not_finite=%s trajectories=%s",
                version,
                each.source,
                named(each, ids) or "all",
            )

    def published(self) -> None:
        """Note that the new version's weights can be fetched."""
        self._step_seconds = time.monotonic() - self._started_at

    def report(self, figures: Mapping[str, float]) -> StepReport:
        """Return the report of the step, which is sent with its commit."""
        return StepReport(
            step_seconds=self._step_seconds, wait_seconds=self._wait_seconds, metrics=figures
        )

    def committed(self, version: int, checked: Checked, figures: Mapping[str, float]) -> None:
        """Show a step that made ``version``, and add its durations to the status."""
        metrics = self._metrics
        metrics.step.set(version)
        metrics.step_seconds.observe(self._step_seconds)
        metrics.wait_seconds.observe(self._wait_seconds)
        metrics.tokens.inc(checked.num_tokens)
        metrics.last_step_at.set_to_current_time()
        metrics.show(figures)
        busy_seconds = self._step_seconds - self._wait_seconds
        self.status = ProcessStatus(
            version=version,
            idle_seconds=self.status.idle_seconds + self._wait_seconds,
            busy_seconds=self.status.busy_seconds + busy_seconds,
        )
