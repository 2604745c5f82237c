"""Versions of the policy: batches go out, commits come in, and a new trainer begins an epoch."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from hetrl_runtime.coordinator.inference_demand import InferenceDemand
from hetrl_runtime.coordinator.ingest import Ingest
from hetrl_runtime.coordinator.journal.history import Recorded
from hetrl_runtime.coordinator.journal.run_journal import RunJournal
from hetrl_runtime.coordinator.reporting.reporting import Reporting
from hetrl_runtime.coordinator.rules.commits import CommitRefused
from hetrl_runtime.coordinator.rules.members import Member
from hetrl_runtime.coordinator.rules.prompts import Prompts
from hetrl_runtime.coordinator.rules.state import RunState
from hetrl_runtime.process.faults import FaultPoints, Point
from hetrl_runtime.tracing.groups import GroupTraces
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import ALL_STEPS_DONE, Ending, ResumePoint, StepReport

log = logging.getLogger(__name__)


class RecordStep(Protocol):
    """The report of one step, in figures and files."""

    def __call__(self, commit: Recorded, *, now: float) -> None:
        """Record a commit."""


class Versions:
    """The versions of one run's policy, and the trainer that makes them."""

    def __init__(
        self,
        state: RunState,
        journal: RunJournal,
        reporting: Reporting,
        traces: GroupTraces,
        ingest: Ingest,
        *,
        prompts: Prompts,
        inference: InferenceDemand,
        record: RecordStep,
        end: Callable[[Ending], None],
        num_steps: int,
        first_epoch: int,
        trainer_instance: str,
    ) -> None:
        self._state = state
        self._journal = journal
        self._reporting = reporting
        self._traces = traces
        self._ingest = ingest
        self._prompts = prompts
        self._inference = inference
        self._record = record
        self._end = end
        self._num_steps = num_steps
        self._first_epoch = first_epoch
        self._trainer_instance = trainer_instance
        self.batch_out_since: float | None = None
        """When the trainer got the batch that it works on; None while it has none."""

    def batch(self, *, now: float) -> tuple[DeliveredTrajectory, ...]:
        """Return the batch of the current version; empty while it is not full."""
        batch = self._state.batch()
        if batch and self.batch_out_since is None:
            self._hand_out(batch, now=now)
        return batch

    @FaultPoints(after=Point.BATCH_CHOSEN)
    def _hand_out(self, batch: tuple[DeliveredTrajectory, ...], *, now: float) -> None:
        self.batch_out_since = now
        self._traces.handed_out(batch, now=now)

    def commit(
        self,
        version: int,
        *,
        consumed: Sequence[TrajectoryId],
        discarded: Sequence[TrajectoryId],
        report: StepReport,
        ending: Ending | None,
        now: float,
        traceparent: str,
    ) -> ResumePoint | CommitRefused:
        """Move on to the next version, and end the run where the trainer says so."""
        is_news = version != self._state.version
        done = self._state.commit(version, consumed=consumed, discarded=discarded)
        if isinstance(done, CommitRefused):
            return done
        if is_news:
            self.batch_out_since = None
            # Nothing could be accepted while the bound was full: the wait starts again.
            self._ingest.accepted_at = now
            self._journal.write_commit(
                version, consumed=consumed, discarded=discarded, report=report
            )
            commit = Recorded(done=done, num_discarded=len(discarded), report=report)
            self._report_commit(commit, step=traceparent, now=now)
            self._journal.compact_if_long(self._state, self._trainer_instance)
        if ending:
            self._end(ending)
        return done.resume

    @FaultPoints(after=Point.COMMIT_REPORTED)
    def _report_commit(self, commit: Recorded, *, step: str, now: float) -> None:
        done = commit.done
        self._traces.consumed(done.consumed, version=done.resume.version - 1, step=step, now=now)
        self._record(commit, now=now)

    def begin(self, resume: ResumePoint, trainer: Member, *, now: float) -> None:
        """Begin an epoch at a trainer's resume point, unless it is the same trainer."""
        # A trainer that lives on never goes back; it may only not have heard of its last commit.
        is_same = trainer.instance == self._trainer_instance
        if self._state.epoch and is_same and resume.version <= self._state.version:
            return
        if trainer.needs_reference and not self._state.needs_reference:
            self._inference.begin(now=now)
        # A batch that was out when the last trainer ended may be what ended it.
        poison = self._state.blame_batch() if self.batch_out_since is not None else ()
        lost = self._state.begin(
            resume,
            epoch=max(self._state.epoch + 1, self._first_epoch),
            needs_reference=trainer.needs_reference,
        )
        self._quarantine(poison)
        self._trainer_instance = trainer.instance
        self.batch_out_since = None
        self._ingest.accepted_at = now
        self._reporting.progresses.begin(now=now)
        self._journal.begin_epoch(self._state, self._trainer_instance)
        if resume.version >= self._num_steps:
            message = f"{resume.version} steps were done before, by the run that this one continues"
            self._end(Ending(reason=ALL_STEPS_DONE, message=message))
        log.info(
            "epoch began: epoch=%d version=%d kept=%d lost=%d",
            self._state.epoch,
            self._state.version,
            self._state.num_buffered,
            lost,
        )

    def _quarantine(self, trajectories: tuple[DeliveredTrajectory, ...]) -> None:
        """Go on without trajectories with which trainers ended."""
        if not trajectories:
            return
        self._reporting.quarantine(
            trajectories, line_of=lambda group: self._prompts.of_group(group).line
        )
        for group in {each.group for each in trajectories}:
            self._state.abandon(group)
            self._traces.abandoned(group, "in quarantine: trainers ended with it")
