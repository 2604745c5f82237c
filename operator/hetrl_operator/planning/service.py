"""The planning service: it queues jobs for the planner and keeps their answers.

An answer is kept per job with the digest of its inputs, so that only a change of the job or of its
fleet plans again. Jobs get the worker processes in the order of their requests. Each is planned on
what is free at its turn. A search claims the GPUs of its plan; the action ``ReserveGpus`` reserves
them.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from hetrl_api.job.planning import PlanningMode
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.plan.capabilities import obstacles
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_operator.model.actions import StartPlanning
from hetrl_operator.model.observed import FleetSeen, JobSeen, ParsedSpec
from hetrl_operator.model.parse import JobKey
from hetrl_operator.model.planning import (
    Answer,
    InsufficientFreeGpus,
    PlannerError,
    PlanningSeen,
    PlanSeen,
)
from hetrl_operator.planning.capacity import FleetCapacity, FleetView
from hetrl_operator.planning.fleet_digest import digest_of, unnamed_fleet_text
from hetrl_operator.planning.full_machines import FullMachines
from hetrl_operator.planning.inputs import SearchInput, from_now, planning_key
from hetrl_operator.planning.plan_cache import PlanCache
from hetrl_operator.planning.process_pool import PlannerProcesses
from hetrl_operator.planning.request import CurrentPlan, PlanRequest
from hetrl_operator.planning.reservations import Reservations, gpus_by_machine
from hetrl_operator.settings import PlannerSettings
from hetrl_planner.problem.cache_key import planning_problem

log = logging.getLogger(__name__)


class PlannerMetrics(Protocol):
    """The metrics of planning."""

    def solved(self, *, outcome: str, seconds: float) -> None:
        """Count one answer."""


@dataclass(slots=True)
class _Record:
    """The last search for a job."""

    spec_key: str
    key: str
    request_id: str = ""
    fleet: str = ""
    current: CurrentPlan | None = None
    manual_plan: Plan | None = None
    task: asyncio.Task[None] | None = None
    answer: Answer | None = None
    answered_at: datetime | None = None
    num_failures: int = 0
    left_out: tuple[str, ...] = ()
    unreserved: bool = False
    """Whether the search uses the whole fleet and reserves nothing, for a job in a queue."""


_NO_SEARCH = _Record(spec_key="", key="")
"""The record of a job without a search."""


@dataclass(slots=True)
class Planning:
    """The planning service of one operator process."""

    settings: PlannerSettings
    fleet_view: FleetView
    metrics: PlannerMetrics
    answered: Callable[[JobKey], None]
    """Called with a job's key when its answer is ready."""

    reservations: Reservations = field(default_factory=Reservations)
    full_machines: FullMachines = field(default_factory=FullMachines)
    processes: PlannerProcesses = field(init=False)
    _capacity: FleetCapacity = field(init=False)
    _turns: asyncio.Semaphore = field(init=False)
    _plan_cache: PlanCache = field(default_factory=PlanCache)
    _records: dict[str, _Record] = field(default_factory=dict)
    _differs_since: dict[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._capacity = FleetCapacity(view=self.fleet_view, reservations=self.reservations)
        self.processes = PlannerProcesses(settings=self.settings)
        self._turns = asyncio.Semaphore(self.settings.workers)

    def wake(self) -> None:
        """Start a worker process before the first request."""
        self.processes.wake()

    def seen(
        self,
        job: JobSeen,
        plan: PlanSeen | None,
        *,
        unreserved: bool = False,
        manual_plan: PlanSeen | None = None,
    ) -> PlanningSeen:
        """Return the state of planning for a job.

        Args:
            job: the job.
            plan: the active plan, if there is one.
            unreserved: whether the job waits in a queue and ignores others' reservations.
            manual_plan: the plan that the job names.
        """
        held = self.reservations
        if job.parsed is None:
            return PlanningSeen(spec_key="", is_reserved=held.holds(job.uid))
        spec_key = planning_key(job.parsed)
        record = self._records.get(job.uid)
        if record is None or record.spec_key != spec_key:
            record = _NO_SEARCH
        is_followed = plan is not None and plan.planned_for == spec_key and not record.request_id
        return PlanningSeen(
            spec_key=spec_key,
            is_running=record is not _NO_SEARCH and record.answer is None,
            answer=record.answer,
            answer_key=record.key,
            answer_request_id=record.request_id,
            answer_fleet=record.fleet,
            answered_at=record.answered_at,
            is_outdated=not is_followed
            and self._is_outdated(job, job.parsed, record, unreserved=unreserved),
            num_failures=record.num_failures,
            left_out="; ".join(record.left_out),
            is_reserved=held.holds(job.uid),
            holds_manual_plan=manual_plan is not None
            and held.holds_just(job.uid, manual_plan.plan),
            conflict=self._conflict(job, job.parsed, plan, unreserved=unreserved),
        )

    def _is_outdated(
        self, job: JobSeen, parsed: ParsedSpec, record: _Record, *, unreserved: bool
    ) -> bool:
        """Tell whether an answer's inputs have changed.

        The digest is costly on a large fleet. A plan that is about to be reserved needs none,
        since its reservation fails if its GPUs are gone.
        """
        is_refusal = isinstance(record.answer, Infeasible | InsufficientFreeGpus)
        is_unreserved_plan = isinstance(record.answer, Plan) and unreserved
        if not is_refusal and (not is_unreserved_plan or record.manual_plan):
            return False
        return self._key(job, parsed, record, unreserved=unreserved) != record.key

    def _conflict(
        self, job: JobSeen, parsed: ParsedSpec, plan: PlanSeen | None, *, unreserved: bool
    ) -> str:
        """Return why the active plan's GPUs cannot be reserved; empty where they can or are."""
        if plan is None or self.reservations.holds(job.uid):
            return ""
        others = Reservations() if unreserved else self.reservations
        return others.conflict(job.uid, plan.plan, self._capacity.capacity(parsed))

    def fleet(self, job: JobSeen, plan: PlanSeen | None, now: datetime) -> FleetSeen:
        """Return the fleet that concerns a job, and since when it differs from its plan's."""
        if job.parsed is None or plan is None or not plan.fleet:
            return FleetSeen()
        key = self._capacity.digest(job.parsed)
        if key == plan.fleet:
            self._differs_since.pop(job.uid, None)
            return FleetSeen(key=key)
        since, last = self._differs_since.get(job.uid), job.status.last_replan
        # A decision since then used the fleet of its time. A later change waits its own time.
        if since is None or (last and last.time >= since):
            since = min(now, self.fleet_view.fleet_changed_at())
            self._differs_since[job.uid] = since
        return FleetSeen(key=key, differs_since=since)

    def machines(self, job: JobSeen) -> tuple[str, ...]:
        """Return the first machines that a job might use if no other job held GPUs."""
        if job.parsed is None:
            return ()
        whole = self._capacity.whole(job.parsed).machines
        return tuple(each.name for each in whole[:_MOST_NAMED])

    def start(self, job: JobSeen, parsed: ParsedSpec, request: StartPlanning) -> None:
        """Start a search for a plan; it replaces a search for an earlier spec."""
        spec_key, last = planning_key(parsed), self._records.get(job.uid)
        is_again = last is not None and (last.spec_key, last.request_id) == (
            spec_key,
            request.request_id,
        )
        record = _Record(
            spec_key=spec_key,
            key="",
            request_id=request.request_id,
            current=self._current_plan(job, parsed, request) if request.current else None,
            manual_plan=request.manual_plan,
            num_failures=last.num_failures if last and is_again else 0,
            unreserved=request.unreserved,
        )
        self.forget(job.uid)
        record.key = self._key(job, parsed, record, unreserved=record.unreserved)
        record.task = asyncio.create_task(self._search(job, parsed, record))
        self._records[job.uid] = record

    def reserve(self, job: JobSeen, parsed: ParsedSpec, plan: Plan) -> str:
        """Reserve a plan's GPUs; on a conflict return it and drop the outdated answer."""
        conflict = self.reservations.reserve(job.uid, plan, self._capacity.capacity(parsed))
        if conflict:
            self.forget(job.uid)
        return conflict

    def forget(self, uid: str) -> None:
        """Drop a job's search and answer, and the claim of its plan."""
        self.reservations.drop_claim(uid)
        record = self._records.pop(uid, None)
        if record and record.task:
            record.task.cancel()

    def drop(self, uid: str) -> None:
        """Drop all state of a deleted job."""
        self.forget(uid)
        self._differs_since.pop(uid, None)
        self.full_machines.forget(uid)

    async def close(self) -> None:
        """Stop the worker processes."""
        for uid in list(self._records):
            self.forget(uid)
        await self.processes.close()

    def _key(self, job: JobSeen, parsed: ParsedSpec, record: _Record, *, unreserved: bool) -> str:
        """Digest the inputs of a search as they are now."""
        has_manual_plan = record.manual_plan is not None
        usable = self._usable(job, parsed, unreserved=unreserved, has_manual_plan=has_manual_plan)
        problem = planning_problem(usable, parsed.spec)
        # All other inputs of a plan are in the digest of the spec's planning fields.
        interval = str(parsed.spec.training.checkpoint_every_steps)
        fleet = unnamed_fleet_text(problem.fleet)
        return digest_of(record.spec_key, record.request_id, interval, fleet)

    def _usable(
        self, job: JobSeen, parsed: ParsedSpec, *, unreserved: bool, has_manual_plan: bool
    ) -> ClusterSnapshot:
        """Return the machines that a job may be planned on.

        A manual plan may use machines without room: its pods wait for them, since there is no
        other plan.
        """
        if unreserved:
            return self._capacity.whole(parsed)
        free = self._capacity.free(job.uid, parsed)
        return (
            free
            if has_manual_plan
            else self.full_machines.without_full(job.uid, free, self.reservations.held_by(job.uid))
        )

    def _current_plan(
        self, job: JobSeen, parsed: ParsedSpec, request: StartPlanning
    ) -> CurrentPlan:
        assert request.current
        used = gpus_by_machine(request.current)
        full = self.full_machines.closed(job.uid, self._capacity.whole(parsed))
        return CurrentPlan(
            plan=request.current,
            keeps_trainer=request.keeps_trainer,
            enough_percent=request.enough_percent,
            closed=(
                *self._capacity.closed(parsed, used),
                *(each for each in full if each.node in used),
            ),
        )

    async def _search(self, job: JobSeen, parsed: ParsedSpec, record: _Record) -> None:
        started = asyncio.get_running_loop().time()
        record.answer = await self._answer(job, parsed, record)
        record.answered_at = datetime.now(UTC)
        has_failed = isinstance(record.answer, PlannerError)
        record.num_failures = record.num_failures + 1 if has_failed else 0
        seconds = asyncio.get_running_loop().time() - started
        outcome = _outcome(record.answer)
        log.info(
            "planned: job=%s/%s outcome=%s seconds=%.2f", job.namespace, job.name, outcome, seconds
        )
        self.metrics.solved(outcome=outcome, seconds=seconds)
        self.answered((job.namespace, job.name))

    async def _answer(self, job: JobSeen, parsed: ParsedSpec, record: _Record) -> Answer:
        """Return a cached answer, or plan in turn until the plan's GPUs are reserved."""
        since = asyncio.get_running_loop().time()
        found = self._known(job, parsed, record, since=since)
        if found is None:
            async with self._turns:
                # Free GPUs and cached answers may have changed while this job waited.
                while found is None:
                    found = self._known(job, parsed, record, since=since) or await self._made(
                        job, parsed, record
                    )
        return found

    def _known(
        self, job: JobSeen, parsed: ParsedSpec, record: _Record, *, since: float
    ) -> Answer | None:
        """Return the cached answer to an equal request."""
        inputs = self._search_input(job, parsed, record)
        if inputs is None:
            return Infeasible(reasons=("spec.planning.objective.deadline.finishBefore is over",))
        if record.current or record.manual_plan:
            return None
        record.fleet = self._capacity.digest(parsed)
        plan = self._plan_cache.plan(inputs.problem, since=since)
        if plan is None:
            return self._plan_cache.refusal(inputs.exact, since=since)
        return plan if self._claim(job, parsed, record, plan) else None

    async def _made(self, job: JobSeen, parsed: ParsedSpec, record: _Record) -> Answer | None:
        """Run the planner; None if other jobs took the plan's GPUs meanwhile."""
        inputs = self._search_input(job, parsed, record)
        assert inputs, "_known handles a deadline that has passed"
        record.key = self._key(job, parsed, record, unreserved=record.unreserved)
        record.left_out, record.fleet = inputs.left_out, self._capacity.digest(parsed)
        found = await self.processes.ask(
            PlanRequest(
                job=inputs.spec,
                free=inputs.free,
                fleet=inputs.whole,
                left_out=inputs.left_out,
                full=inputs.full,
                full_gpus=inputs.full_gpus,
                current=record.current,
                manual_plan=record.manual_plan,
                fits_fleet=self._plan_cache.fits(planning_problem(inputs.whole, inputs.spec)),
            )
        )
        if not record.current and not record.manual_plan:
            at = asyncio.get_running_loop().time()
            self._plan_cache.store(inputs.problem, inputs.exact, found, at=at)
        return found if self._claim(job, parsed, record, found) else None

    def _search_input(
        self, job: JobSeen, parsed: ParsedSpec, record: _Record
    ) -> SearchInput | None:
        """Return the planner's inputs now; None if the job's deadline has passed."""
        spec = from_now(parsed.spec, job, datetime.now(UTC))
        if spec is None:
            return None
        unreserved, has_manual_plan = record.unreserved, record.manual_plan is not None
        free = self._usable(job, parsed, unreserved=unreserved, has_manual_plan=has_manual_plan)
        unheld = self._usable(job, parsed, unreserved=unreserved, has_manual_plan=True)
        whole = self._capacity.whole(parsed)
        full = () if unreserved or has_manual_plan else self.full_machines.left_out(job.uid, whole)
        return SearchInput(
            spec=spec,
            free=free,
            whole=whole,
            left_out=(*self._capacity.left_out(parsed), *full),
            problem=planning_problem(free, spec),
            full=full,
            full_gpus=unheld.num_gpus - free.num_gpus,
        )

    def _claim(self, job: JobSeen, parsed: ParsedSpec, record: _Record, found: Answer) -> bool:
        """Claim a first plan's GPUs until it is reserved; return False on a conflict.

        Without the claim, the next search in turn would plan on the same GPUs.
        """
        if not isinstance(found, Plan) or record.request_id or obstacles(found, parsed.spec):
            return True
        if record.unreserved or parsed.written.planning.mode is PlanningMode.PLAN_ONLY:
            return True
        return not self.reservations.claim(job.uid, found, self._capacity.capacity(parsed))


_MOST_NAMED = 100
"""Machines that a preflight's affinity names; any of them has the zone of a job's GPUs."""

_OUTCOMES = {InsufficientFreeGpus: "Occupied", PlannerError: "PlannerTrouble"}
"""Metric labels of answers that differ from their type's name; alerts name them."""


def _outcome(answer: Answer) -> str:
    """Return the metric label of an answer."""
    return _OUTCOMES.get(type(answer), type(answer).__name__)
