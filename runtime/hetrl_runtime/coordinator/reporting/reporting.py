"""Reports of a run to the outside: gauges and counters, step records, progress, the result.

``progress`` computes the figures and ``run_files`` writes files; this module keeps both in step.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hetrl_core.launch import Launch
from hetrl_runtime.coordinator.journal.history import Recorded
from hetrl_runtime.coordinator.reporting.curves import Curves
from hetrl_runtime.coordinator.reporting.left_out_file import LeftOutFile
from hetrl_runtime.coordinator.reporting.progress import Progresses, RunSnapshot
from hetrl_runtime.coordinator.reporting.quarantine import Quarantine
from hetrl_runtime.coordinator.reporting.run_files import ReportFiles, step_record
from hetrl_runtime.coordinator.rules.commits import Committed
from hetrl_runtime.coordinator.rules.members import Members
from hetrl_runtime.data.left_out import LeftOutPrompt, LeftOutReason
from hetrl_runtime.metrics.coordinator import CoordinatorMetrics
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.values import Ending, Outcome

log = logging.getLogger(__name__)


class Reporting:
    """Reports a run to people and Prometheus."""

    def __init__(self, launch: Launch, metrics: CoordinatorMetrics, members: Members) -> None:
        self._metrics = metrics
        self._members = members
        self._files = ReportFiles(Path(launch.state_path))
        path = launch.training.tensorboard_path
        self._quarantine = Quarantine(Path(launch.state_path))
        self._left_out = LeftOutFile(
            Path(launch.state_path), max_prompt_tokens=launch.data.max_prompt_tokens
        )
        self.left_out_before = self._left_out.read()
        """Prompts that earlier starts of this run have left out."""

        self._curves = Curves(Path(path)) if path else None
        self.progresses = Progresses(
            total_steps=launch.training.steps,
            predicted_step_seconds=launch.predicted_step_seconds,
        )
        self._outcomes: Counter[Outcome] = Counter()
        """Not yet in the metrics, whose own counting takes ten times as long."""

        for part in launch.data.rewards:
            metrics.reward_parts.labels(part=part.name)
        metrics.training_steps.set(launch.training.steps)
        metrics.max_staleness.set(launch.algorithm.max_staleness)
        metrics.predicted_step_seconds.set(launch.predicted_step_seconds or 0.0)

    def close(self) -> None:
        """Close what is open."""
        if self._curves:
            self._curves.close()

    def count(self, outcome: Outcome, number: int = 1) -> None:
        """Count trajectories by what became of them."""
        self._outcomes[outcome] += number

    def count_silent_group(self) -> None:
        """Count a group that was left out because its rewards were all equal."""
        self._metrics.silent_groups.inc()

    def count_unjudged_group(self) -> None:
        """Count a group that was left out because too few of its responses were judged."""
        self._metrics.unjudged_groups.inc()

    def add_left_out(self, prompt: LeftOutPrompt) -> None:
        """Report a prompt that is not used any more."""
        log.warning(
            "prompt left out: line=%d reason=%s detail=%s",
            prompt.line,
            prompt.reason,
            prompt.detail,
        )
        self._left_out.add(prompt)

    def show_left_out(self, counts: Mapping[LeftOutReason, int]) -> None:
        """Set how many prompts are left out, by reason."""
        for reason, gauge in self._metrics.left_out.items():
            gauge.set(counts.get(reason, 0))

    def quarantine(
        self, trajectories: Sequence[DeliveredTrajectory], *, line_of: Callable[[int], int]
    ) -> None:
        """Report trajectories with which trainers ended."""
        self._quarantine.add(trajectories, line_of=line_of)
        self._metrics.quarantined.inc(len(trajectories))
        log.error("trajectories quarantined: %s", self._quarantine.notice)

    def has_step(self, done: Committed, *, epoch: int) -> bool:
        """Tell whether the newest step record is of this version and epoch."""
        newest = self._files.newest_step()
        return (newest.get("version"), newest.get("epoch")) == (done.resume.version, epoch)

    def record_step(
        self, commit: Recorded, *, epoch: int, snapshot: RunSnapshot, now: float
    ) -> None:
        """Record a version and what it was trained on."""
        done, num_discarded = commit.done, commit.num_discarded
        trained_version = done.resume.version - 1
        histogram = self.progresses.commit(done.consumed, version=trained_version, now=now)
        for age in histogram.elements():
            self._metrics.staleness.observe(age)
        self._metrics.reward_mean.set(self.progresses.reward_mean)
        for name, mean in self.progresses.reward_parts.items():
            self._metrics.reward_parts.labels(part=name).set(mean)
        self.count(Outcome.STALE, num_discarded + done.dropped_stale + done.withdrawn)
        step = step_record(
            epoch=epoch,
            consumed=done.consumed,
            num_discarded=num_discarded,
            staleness=histogram,
            report=commit.report,
            progress=self.progress(snapshot, ending=None),
        )
        self._files.add_step(step, consumed=done.consumed)
        if self._curves:
            self._curves.add_step(step)

    def progress(self, snapshot: RunSnapshot, *, ending: Ending | None) -> pb.Progress:
        """Return all there is to say at this moment."""
        more = (self._quarantine.notice,) if self._quarantine.notice else ()
        known = replace(snapshot, notices=(*snapshot.notices, *more))
        return self.progresses.message(known, self._members, ending=ending)

    def refresh(self, snapshot: RunSnapshot, *, ending: Ending | None) -> None:
        """Bring the gauges and the progress file up to date, and at the end the result."""
        counted, self._outcomes = self._outcomes, Counter()
        for outcome, number in counted.items():
            self._metrics.outcomes[outcome].inc(number)
        self._metrics.buffered.set(snapshot.buffered)
        self._metrics.running.set(snapshot.running)
        self._metrics.version.set(snapshot.version)
        progress = self.progress(snapshot, ending=ending)
        self._files.write_progress(progress)
        if ending:
            self._files.write_result(ending, progress=progress)
