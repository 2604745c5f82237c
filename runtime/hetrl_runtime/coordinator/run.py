"""One run's coordinator without its sockets: state, journal, members and reporting in step.

Every change is written to the journal before its answer leaves. ``now`` is any steady clock
in seconds; calls come one at a time, from one event loop.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from hetrl_core.job.identity import UNKNOWN, Value
from hetrl_core.launch import Launch
from hetrl_core.plan.pod_sets import slug
from hetrl_core.task import Role, Task
from hetrl_runtime.coordinator.ingest import Ingest
from hetrl_runtime.coordinator.journal import history, journal
from hetrl_runtime.coordinator.journal.history import Recorded
from hetrl_runtime.coordinator.journal.run_journal import RunJournal
from hetrl_runtime.coordinator.reporting.progress import RunSnapshot
from hetrl_runtime.coordinator.reporting.reporting import Reporting
from hetrl_runtime.coordinator.rules.commits import CommitRefused
from hetrl_runtime.coordinator.rules.data_changes import check_data
from hetrl_runtime.coordinator.rules.deadlines import SignsOfLife, verdict
from hetrl_runtime.coordinator.rules.dynamic_sampling import DynamicSampling
from hetrl_runtime.coordinator.rules.failure_budget import FailureBudget
from hetrl_runtime.coordinator.rules.members import Member, Members
from hetrl_runtime.coordinator.rules.open_groups import GroupLease
from hetrl_runtime.coordinator.rules.prompts import Prompts
from hetrl_runtime.coordinator.rules.reward_budget import RewardBudget
from hetrl_runtime.coordinator.rules.state import RunState, WorkerBehind
from hetrl_runtime.data.left_out import LeftOutPrompt, LeftOutReason
from hetrl_runtime.metrics.coordinator import CoordinatorMetrics
from hetrl_runtime.process.faults import FaultPoints, Point
from hetrl_runtime.tracing.groups import GroupTraces
from hetrl_runtime.tracing.span import NO_TRACER, Tracer
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import FailedTrajectory, TrajectoryId
from hetrl_runtime.wire.validation import limits_of
from hetrl_runtime.wire.values import (
    ALL_STEPS_DONE,
    Announcement,
    Ending,
    ProcessStatus,
    PromptLease,
    Registration,
    ResumePoint,
    StepReport,
)

log = logging.getLogger(__name__)

LEASE_SECONDS = 20.0
"""Ten heartbeats: how long a silent worker keeps its prompts."""

GONE_SECONDS = 10.0
"""Five heartbeats: a silent process does not keep an ended run waiting."""

FORGOTTEN_SECONDS = 60.0
"""Thirty heartbeats: a process so silent is no member any more, and registers if it returns."""


class Run:
    """Everything that the coordinator knows and does."""

    def __init__(
        self,
        launch: Launch,
        prompts: Prompts,
        metrics: CoordinatorMetrics,
        *,
        first_epoch: int,
        now: float,
        data: Value = UNKNOWN,
        lease_seconds: float = LEASE_SECONDS,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        """Take up the run where its journal ends, or at its beginning.

        ``first_epoch`` must be above every epoch of a coordinator whose journal was lost: the
        time in seconds will do. ``data`` are those of the prompts.

        Raises:
            DataChangedError: the journal is of other data.
        """
        self.launch = launch
        self.ending: Ending | None = None
        self.state = RunState(
            launch.algorithm,
            max_concurrent=launch.max_concurrent,
            lease_seconds=lease_seconds,
            is_left_out=prompts.is_left_out,
        )
        self.members = Members()
        self.workers_waiting: dict[str, bool] = {}
        """Workers whose request is unanswered, and whether their weights are too old."""

        self.trainer_waits = False
        self.checks_rows = False
        """Whether rows of the data are still checked, and no prompt of a new run may go out."""

        self._prompts = prompts
        self._reporting = Reporting(launch, metrics, self.members)
        for each in self._reporting.left_out_before:
            prompts.leave_out(each)
        self._traces = GroupTraces(tracer, job_uid=launch.job.uid)
        self._data = data
        self._first_epoch = first_epoch
        self._started_at = now
        self._batch_out_since: float | None = None
        path = Path(launch.state_path) / f"journal-{slug(launch.job.uid)}"
        limits = limits_of(launch)
        recovered = history.replay(self.state, journal.read(path), now=now, limits=limits)
        self._check_data(recovered.data, of=f"journal {path}")
        self.ending = self._surviving(recovered.ending)
        self._trainer_instance = recovered.trainer_instance
        self._inference_needed_since = now
        if self.state.epoch:
            self._reporting.progresses.begin(now=now)
        newest = recovered.newest
        if newest and not self._reporting.has_step(newest.done, epoch=self.state.epoch):
            self._record(newest, now=now)
        self.journal = RunJournal(path, data=data)
        if self.state.epoch and not self.ending and recovered.data != data:
            self.journal.begin_epoch(self.state, self._trainer_instance)
        self._ingest = Ingest(
            self.state,
            self.journal,
            self._reporting,
            self._traces,
            limits=limits,
            dynamic_sampling=DynamicSampling(launch.algorithm),
            failure_budget=FailureBudget(prompts),
            reward_budget=RewardBudget(
                launch.algorithm, has_judged=bool(self.state.version or self.state.num_buffered)
            ),
            leave_out=self._leave_out_failed,
            end=self.end,
        )
        self._ingest.accepted_at = now if self.state.epoch else None

    def close(self) -> None:
        """Write everything to the disk."""
        self.journal.close()
        self._reporting.close()
        self._traces.close()

    # Processes come and go

    def register(
        self,
        member: Member,
        *,
        resume: ResumePoint | None,
        now: float,
        data: Value = UNKNOWN,
    ) -> Registration:
        """Enter a process; a trainer also says where the surviving history ends, and of which data.

        Raises:
            DataChangedError: a trainer's history is of other data.
        """
        if member.role is Role.TRAINER:
            self._check_data(data, of="the trainer's checkpoint")
        earlier = self.members.enter(member)
        if earlier:
            self.state.release(earlier.process)
        if member.role is Role.TRAINER:
            self._begin(resume or ResumePoint(), member, now=now)
        log.info(
            "process registered: process=%s role=%s epoch=%d version=%d",
            member.process,
            member.role,
            self.state.epoch,
            self.state.version,
        )
        return Registration(epoch=self.state.epoch, version=self.state.version, data=self._data)

    def knows(self, process: str, *, epoch: int) -> bool:
        """Tell whether a process is registered in this epoch."""
        return epoch == self.state.epoch and self.members.get(process) is not None

    def heartbeat(
        self, process: str, status: ProcessStatus, holding: Iterable[TrajectoryId], *, now: float
    ) -> tuple[TrajectoryId, ...]:
        """Keep a process and its leases alive; return what it should stop working on."""
        member = self.members.get(process)
        if member:
            member.hear(status, now=now)
        return self.state.hold(process, holding, now=now)

    def leave(self, process: str) -> None:
        """Take everything back from a process that says goodbye."""
        self.state.release(process)
        self.members.leave(process)

    def is_attended(self, *, now: float) -> bool:
        """Tell whether a process that is still alive has not left."""
        return any(now - each.seen_at < GONE_SECONDS for each in self.members)

    def announcement(self, process: str, *, now: float) -> Announcement:
        """Return what a process should know now."""
        return Announcement(
            epoch=self.state.epoch,
            version=self.state.version,
            weights_address=str(self.launch.weights),
            finished=self.ending is not None,
            reason=self.ending.reason if self.ending else "",
            relay_address=self.members.relay_for(process, since=now - GONE_SECONDS),
            inference_endpoints=self.members.inference_endpoints(since=now - GONE_SECONDS),
        )

    # Prompts go out, trajectories come in

    def lease(
        self, process: str, *, worker_version: int, max_trajectories: int, now: float
    ) -> tuple[PromptLease, ...] | WorkerBehind:
        """Lease prompts to a worker, as many as the bound allows."""
        leases: tuple[PromptLease, ...] = ()
        while self._may_lease and not leases:
            groups = self.state.lease(
                process, worker_version=worker_version, max_trajectories=max_trajectories, now=now
            )
            if isinstance(groups, WorkerBehind) or not groups:
                self._traces.waits(process, now=now)
                return groups if isinstance(groups, WorkerBehind) else ()
            ids = [identity for group in groups for identity in group.ids]
            self.journal.write_lease(process, ids, worker_version=worker_version)
            leases = tuple(each for each in map(self._prompt_lease, groups) if each)
        if not leases:
            return ()
        return self._traces.leased(process, leases, worker_version=worker_version, now=now)

    @property
    def _may_lease(self) -> bool:
        is_over = self.ending or self._is_trained
        return not (is_over or not self.state.epoch or self._awaits_rows)

    @property
    def _awaits_rows(self) -> bool:
        return self.checks_rows and not (self.state.version or self.state.num_buffered)

    def _prompt_lease(self, group: GroupLease) -> PromptLease | None:
        """Return a lease with its prompt; None where the prompt cannot be read, and is left out."""
        try:
            prompt = self._prompts.of_group(group.group)
            columns = json.dumps(dict(prompt.columns), default=str) if prompt.columns else ""
        except (OSError, ValueError, RecursionError) as error:
            self.state.abandon(group.group)
            self.journal.add_abandoned(group.group)
            self._leave_out_group(group.group, LeftOutReason.ROW_UNREADABLE, str(error))
            return None
        return PromptLease(
            epoch=self.state.epoch,
            group=group.group,
            members=group.members,
            question=prompt.question,
            answer=prompt.answer,
            columns=columns,
            messages=json.dumps(prompt.messages) if prompt.messages else "",
        )

    def leave_out(self, prompt: LeftOutPrompt) -> None:
        """Leave a prompt out of all passes; end the run where none is left."""
        if not self._prompts.leave_out(prompt):
            return
        self._reporting.add_left_out(prompt)
        if ending := self._prompts.ending:
            self.end(ending)

    def _leave_out_failed(self, failed: FailedTrajectory) -> None:
        known = failed.left_out in set(LeftOutReason)
        reason = LeftOutReason(failed.left_out) if known else LeftOutReason.ROW_UNREADABLE
        self._leave_out_group(failed.group, reason, failed.error)

    def _leave_out_group(self, group: int, reason: LeftOutReason, detail: str) -> None:
        index = self._prompts.index(group)
        line = index + 1
        if reason is not LeftOutReason.ROW_UNREADABLE:
            line = self._prompts.of_group(group).line
        self.leave_out(LeftOutPrompt(index=index, line=line, reason=reason, detail=detail))

    def deliver(self, messages: Iterable[bytes], *, now: float) -> list[pb.DeliveryReceipt]:
        """Take trajectories in; receipts may leave once the journal has written deliveries."""
        return [self._ingest.take(message, now=now) for message in messages]

    # Batches and versions

    def batch(self, *, now: float) -> tuple[DeliveredTrajectory, ...]:
        """Return the batch of the current version; empty while it is not full."""
        batch = self.state.batch()
        if batch and self._batch_out_since is None:
            self._hand_out(batch, now=now)
        return batch

    @FaultPoints(after=Point.BATCH_CHOSEN)
    def _hand_out(self, batch: tuple[DeliveredTrajectory, ...], *, now: float) -> None:
        self._batch_out_since = now
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
        traceparent: str = "",
    ) -> ResumePoint | CommitRefused:
        """Move on to the next version, and end the run where the trainer says so.

        The answer may leave once the journal is forced to the disk.
        After the last version the run goes on until the trainer ends it: a trainer that dies
        before its checkpoint is written resumes from an earlier one and repeats the rest.
        """
        is_news = version != self.state.version
        done = self.state.commit(version, consumed=consumed, discarded=discarded)
        if isinstance(done, CommitRefused):
            return done
        if is_news:
            self._batch_out_since = None
            # Nothing could be accepted while the bound was full: the wait starts again.
            self._ingest.accepted_at = now
            self.journal.write_commit(
                version, consumed=consumed, discarded=discarded, report=report
            )
            commit = Recorded(done=done, num_discarded=len(discarded), report=report)
            self._report_commit(commit, step=traceparent, now=now)
            self.journal.compact_if_long(self.state, self._trainer_instance)
        if ending:
            self.end(ending)
        return done.resume

    @FaultPoints(after=Point.COMMIT_REPORTED)
    def _report_commit(self, commit: Recorded, *, step: str, now: float) -> None:
        done = commit.done
        self._traces.consumed(done.consumed, version=done.resume.version - 1, step=step, now=now)
        self._record(commit, now=now)

    def end(self, ending: Ending) -> None:
        """End the run, once; what comes later does not change the reason."""
        if self.ending is None:
            self.ending = ending
            self.journal.write_ending(ending)
            log.info("run ended: reason=%s message=%s", ending.reason, ending.message)

    def tick(self, *, now: float) -> bool:
        """Take expired leases back and give the run up where it hangs; tell whether it matters."""
        has_expired = self._expire_leases(now=now)
        self.members.forget_silent(now - FORGOTTEN_SECONDS)
        if self.ending:
            return has_expired
        ending = verdict(
            self._signs_of_life(), now=now, deadline_seconds=self.launch.startup_deadline_seconds
        )
        if ending:
            self.end(ending)
        return has_expired or ending is not None

    def _expire_leases(self, *, now: float) -> bool:
        expired = self.state.expire(now=now)
        if expired:
            log.warning("leases expired: count=%d first=%s", len(expired), expired[0])
            self._traces.expired(expired)
        return bool(expired)

    def _signs_of_life(self) -> SignsOfLife:
        return SignsOfLife(
            started_at=self._started_at,
            trainer_seen_at=self.members.seen_at(Role.TRAINER),
            workers_seen_at=self.members.seen_at(Role.ROLLOUT),
            inference_seen_at=self._inference_seen_at,
            inference_needed_since=self._inference_needed_since if self._asked else None,
            batch_out_since=self._batch_out_since,
            accepted_at=None if self._is_trained else self._ingest.accepted_at,
            longest_step_seconds=self._reporting.progresses.longest_step_seconds,
        )

    # Reports

    def progress(self) -> pb.Progress:
        """Return all there is to say about the run at this moment."""
        return self._reporting.progress(self._snapshot(), ending=self.ending)

    def publish(self) -> None:
        """Bring everything that people and Prometheus read up to date."""
        self._reporting.show_left_out(self._prompts.num_left_out)
        self._reporting.refresh(self._snapshot(), ending=self.ending)

    # Behind the scenes

    def _record(self, commit: Recorded, *, now: float) -> None:
        self._reporting.record_step(
            commit, epoch=self.state.epoch, snapshot=self._snapshot(), now=now
        )

    @property
    def _asked(self) -> tuple[Task, ...]:
        """What rollouts need inference workers for."""
        has_model = self.launch.data.model is not None
        return (
            *((Task.REFERENCE_INFERENCE,) if self.state.needs_reference else ()),
            *((Task.REWARD_INFERENCE,) if has_model else ()),
        )

    @property
    def _inference_seen_at(self) -> float | None:
        """Return when somebody was last heard of for each of these; None where never."""
        times = [self.members.seen_at(task) for task in self._asked]
        known = [each for each in times if each is not None]
        return min(known) if known and len(known) == len(times) else None

    @property
    def _is_trained(self) -> bool:
        return self.state.version >= self.launch.training.steps

    def _check_data(self, recorded: Value, *, of: str) -> None:
        check_data(recorded, self._data, of=of, allowed=self.launch.training.allowed_changes)

    def _surviving(self, ending: Ending | None) -> Ending | None:
        """Return the end that a journal has, unless the job wants more steps by now."""
        return None if ending and ending.succeeded and not self._is_trained else ending

    def _begin(self, resume: ResumePoint, trainer: Member, *, now: float) -> None:
        # A trainer that lives on never goes back; it may only not have heard of its last commit.
        is_same = trainer.instance == self._trainer_instance
        if self.state.epoch and is_same and resume.version <= self.state.version:
            return
        if trainer.needs_reference and not self.state.needs_reference:
            self._inference_needed_since = now
        # A batch that was out when the last trainer ended may be what ended it.
        poison = self.state.blame_batch() if self._batch_out_since is not None else ()
        lost = self.state.begin(
            resume,
            epoch=max(self.state.epoch + 1, self._first_epoch),
            needs_reference=trainer.needs_reference,
        )
        self._quarantine(poison)
        self._trainer_instance = trainer.instance
        self._batch_out_since = None
        self._ingest.accepted_at = now
        self._reporting.progresses.begin(now=now)
        self.journal.begin_epoch(self.state, self._trainer_instance)
        if resume.version >= self.launch.training.steps:
            message = f"{resume.version} steps were done before, by the run that this one continues"
            self.end(Ending(reason=ALL_STEPS_DONE, message=message))
        log.info(
            "epoch began: epoch=%d version=%d kept=%d lost=%d",
            self.state.epoch,
            self.state.version,
            self.state.num_buffered,
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
            self.state.abandon(group)
            self._traces.abandoned(group, "in quarantine: trainers ended with it")

    def _snapshot(self) -> RunSnapshot:
        return RunSnapshot(
            version=self.state.version,
            has_trainer=bool(self.members.num(Role.TRAINER)),
            num_workers=self.members.num(Role.ROLLOUT),
            lacks_inference=not all(map(self.members.num, self._asked)),
            trainer_waits=self.trainer_waits,
            workers_waiting=len(self.workers_waiting),
            workers_behind=sum(self.workers_waiting.values()),
            ready=self.state.num_ready,
            buffered=self.state.num_buffered,
            running=self.state.num_running,
            pending=self.state.num_pending,
            capacity=self.state.capacity,
            batch_size=self.launch.algorithm.global_batch_size,
            is_trained=self._is_trained,
            awaits_rows=self._awaits_rows,
            notices=() if self.checks_rows else self._prompts.notices,
        )
