"""One run's coordinator without its sockets: state, journal, members and reporting in step.

Every change is written to the journal before its answer leaves. ``now`` is any steady clock
in seconds; calls come one at a time, from one event loop.
"""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from hetrl_core.job.identity import UNKNOWN, Value
from hetrl_core.launch import Launch
from hetrl_core.plan.pod_sets import slug
from hetrl_core.task import Role
from hetrl_runtime.coordinator.inference_demand import InferenceDemand
from hetrl_runtime.coordinator.ingest import Ingest
from hetrl_runtime.coordinator.journal import history, journal
from hetrl_runtime.coordinator.journal.history import Recorded
from hetrl_runtime.coordinator.journal.run_journal import RunJournal
from hetrl_runtime.coordinator.leasing import Leasing
from hetrl_runtime.coordinator.reporting.progress import RunSnapshot
from hetrl_runtime.coordinator.reporting.reporting import Reporting
from hetrl_runtime.coordinator.rules.commits import CommitRefused
from hetrl_runtime.coordinator.rules.data_changes import check_data
from hetrl_runtime.coordinator.rules.deadlines import SignsOfLife, verdict
from hetrl_runtime.coordinator.rules.dynamic_sampling import DynamicSampling
from hetrl_runtime.coordinator.rules.failure_budget import FailureBudget
from hetrl_runtime.coordinator.rules.members import Member, Members
from hetrl_runtime.coordinator.rules.prompts import Prompts
from hetrl_runtime.coordinator.rules.reward_budget import RewardBudget
from hetrl_runtime.coordinator.rules.state import RunState, WorkerBehind
from hetrl_runtime.coordinator.versions import Versions
from hetrl_runtime.data.left_out import LeftOutPrompt
from hetrl_runtime.metrics.coordinator import CoordinatorMetrics
from hetrl_runtime.tracing.groups import GroupTraces
from hetrl_runtime.tracing.span import NO_TRACER, Tracer
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.validation import limits_of
from hetrl_runtime.wire.values import (
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
        self._started_at = now
        self._inference = InferenceDemand(launch, self.state, self.members, now=now)
        self.journal, trainer_instance = self._recover(now=now)
        self._leasing = Leasing(
            self.state,
            self.journal,
            self._reporting,
            self._traces,
            prompts=prompts,
            may_lease=self._may_lease,
            end=self.end,
        )
        self._ingest = self._make_ingest()
        self._ingest.accepted_at = now if self.state.epoch else None
        self._versions = self._make_versions(first_epoch, trainer_instance)

    def _recover(self, *, now: float) -> tuple[RunJournal, str]:
        """Rebuild the run of the journal; return the journal and its trainer's instance."""
        path = Path(self.launch.state_path) / f"journal-{slug(self.launch.job.uid)}"
        limits = limits_of(self.launch)
        recovered = history.replay(self.state, journal.read(path), now=now, limits=limits)
        self._check_data(recovered.data, of=f"journal {path}")
        self.ending = self._surviving(recovered.ending)
        if self.state.epoch:
            self._reporting.progresses.begin(now=now)
        newest = recovered.newest
        if newest and not self._reporting.has_step(newest.done, epoch=self.state.epoch):
            self._record(newest, now=now)
        written = RunJournal(path, data=self._data)
        if self.state.epoch and not self.ending and recovered.data != self._data:
            written.begin_epoch(self.state, recovered.trainer_instance)
        return written, recovered.trainer_instance

    def _make_ingest(self) -> Ingest:
        has_judged = bool(self.state.version or self.state.num_buffered)
        return Ingest(
            self.state,
            self.journal,
            self._reporting,
            self._traces,
            limits=limits_of(self.launch),
            dynamic_sampling=DynamicSampling(self.launch.algorithm),
            failure_budget=FailureBudget(self._prompts),
            reward_budget=RewardBudget(self.launch.algorithm, has_judged=has_judged),
            leave_out=self._leasing.leave_out_failed,
            end=self.end,
        )

    def _make_versions(self, first_epoch: int, trainer_instance: str) -> Versions:
        return Versions(
            self.state,
            self.journal,
            self._reporting,
            self._traces,
            self._ingest,
            prompts=self._prompts,
            inference=self._inference,
            record=self._record,
            end=self.end,
            num_steps=self.launch.training.steps,
            first_epoch=first_epoch,
            trainer_instance=trainer_instance,
        )

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
            self._versions.begin(resume or ResumePoint(), member, now=now)
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
        return self._leasing.lease(
            process, worker_version=worker_version, max_trajectories=max_trajectories, now=now
        )

    def _may_lease(self) -> bool:
        is_over = self.ending or self._is_trained
        return not (is_over or not self.state.epoch or self._awaits_rows)

    @property
    def _awaits_rows(self) -> bool:
        return self.checks_rows and not (self.state.version or self.state.num_buffered)

    def leave_out(self, prompt: LeftOutPrompt) -> None:
        """Leave a prompt out of all passes; end the run where none is left."""
        self._leasing.leave_out(prompt)

    def deliver(self, messages: Iterable[bytes], *, now: float) -> list[pb.DeliveryReceipt]:
        """Take trajectories in; receipts may leave once the journal has written deliveries."""
        return [self._ingest.take(message, now=now) for message in messages]

    # Batches and versions

    def batch(self, *, now: float) -> tuple[DeliveredTrajectory, ...]:
        """Return the batch of the current version; empty while it is not full."""
        return self._versions.batch(now=now)

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
        return self._versions.commit(
            version,
            consumed=consumed,
            discarded=discarded,
            report=report,
            ending=ending,
            now=now,
            traceparent=traceparent,
        )

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
            inference_seen_at=self._inference.seen_at,
            inference_needed_since=self._inference.needed_since,
            batch_out_since=self._versions.batch_out_since,
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
    def _is_trained(self) -> bool:
        return self.state.version >= self.launch.training.steps

    def _check_data(self, recorded: Value, *, of: str) -> None:
        check_data(recorded, self._data, of=of, allowed=self.launch.training.allowed_changes)

    def _surviving(self, ending: Ending | None) -> Ending | None:
        """Return the end that a journal has, unless the job wants more steps by now."""
        return None if ending and ending.succeeded and not self._is_trained else ending

    def _snapshot(self) -> RunSnapshot:
        return RunSnapshot(
            version=self.state.version,
            has_trainer=bool(self.members.num(Role.TRAINER)),
            num_workers=self.members.num(Role.ROLLOUT),
            lacks_inference=self._inference.is_lacking,
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
