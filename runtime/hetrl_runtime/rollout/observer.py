"""Observation of a rollout worker: busy time, weight updates, metrics, and its status."""

import logging
import time

from hetrl_runtime.metrics.rollout import RolloutMetrics
from hetrl_runtime.process.activity import Activity
from hetrl_runtime.reward.verdict import UnjudgedReason
from hetrl_runtime.transport.weights.weights import Snapshot
from hetrl_runtime.wire.trajectory import SampledTrajectory
from hetrl_runtime.wire.values import ProcessStatus

log = logging.getLogger(__name__)


class RolloutObserver:
    """Measurements of one worker since its start."""

    def __init__(self, metrics: RolloutMetrics) -> None:
        self._metrics = metrics
        self._activity = Activity(time.monotonic())
        self._sync_began_at = 0.0
        self._weight_sync_seconds = 0.0
        for reason in UnjudgedReason:
            # A rate over a series that begins with its first event would miss that event.
            metrics.unjudged.labels(reason=reason)

    def generates(self, *, is_busy: bool) -> None:
        """Note whether the worker generates anything from now on."""
        self._activity.observe(is_busy=is_busy, now=time.monotonic())

    def sampled(self, trajectory: SampledTrajectory) -> None:
        """Count a response."""
        self._metrics.generation_seconds.observe(trajectory.generation_seconds)
        self._metrics.interrupted.inc(trajectory.oldest_version != trajectory.newest_version)

    def unjudged(self, reason: str) -> None:
        """Count a response without a reward."""
        self._metrics.unjudged.labels(reason=reason).inc()

    def begin_weight_sync(self) -> None:
        """Start to measure the fetching and loading of a version."""
        self._sync_began_at = time.monotonic()

    def loaded(self, snapshot: Snapshot, *, paused_seconds: float) -> None:
        """Record a version that the engine has loaded."""
        self._weight_sync_seconds = time.monotonic() - self._sync_began_at
        labels = {
            "link": "inter" if snapshot.crossed_regions else "intra",
            "kind": _kind(snapshot),
        }
        self._metrics.weight_sync_seconds.labels(**labels).observe(self._weight_sync_seconds)
        self._metrics.weight_sync_bytes.labels(**labels).inc(len(snapshot.data))
        log.info(
            "weights loaded: version=%d seconds=%.3f paused_seconds=%.3f",
            snapshot.version,
            self._weight_sync_seconds,
            paused_seconds,
        )

    def status(self, *, version: int, running: int, generated_tokens: int) -> ProcessStatus:
        """Return the status of this moment, which the metrics show from now on."""
        status = ProcessStatus(
            version=version,
            running=running,
            generated_tokens=generated_tokens,
            idle_seconds=self._activity.idle_seconds,
            busy_seconds=self._activity.busy_seconds,
            weight_sync_seconds=self._weight_sync_seconds,
        )
        self._metrics.show(status)
        return status


def _kind(snapshot: Snapshot) -> str:
    if snapshot.was_broadcast:
        return "broadcast"
    return "delta" if snapshot.is_patched else "full"
