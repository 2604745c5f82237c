"""Plans for jobs: who asks the planner, when it is their turn, and what was answered.

Answers are remembered per job with the digest of what they were made from, so that only a change
of the job or of its fleet plans again. Jobs take turns at the worker processes in the order in
which they came, and each is planned on what is free when its turn comes: a plan's GPUs are its
job's from the moment at which it is there.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Protocol

from hetrl_api.job.planning import PlanningMode
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec, MeetDeadline
from hetrl_core.plan.capabilities import obstacles
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_operator.model.actions import StartPlanning
from hetrl_operator.model.observed import (
    Answer,
    FleetSeen,
    JobSeen,
    PlannerTrouble,
    PlanningSeen,
    PlanSeen,
    Wish,
)
from hetrl_operator.model.parse import JobKey
from hetrl_operator.planning.capacity import Eligible, FleetView
from hetrl_operator.planning.fleet_digest import digest_of, unnamed_fleet_text
from hetrl_operator.planning.full_machines import Room
from hetrl_operator.planning.plan_cache import Answers
from hetrl_operator.planning.process_pool import PlannerProcesses
from hetrl_operator.planning.request import Asked, Standing
from hetrl_operator.planning.reservations import Ledger, gpus_by_machine
from hetrl_operator.settings import PlannerSettings
from hetrl_planner.problem.cache_key import PlanningProblem, planning_problem

log = logging.getLogger(__name__)


class PlannerMetrics(Protocol):
    """What planning counts."""

    def solved(self, *, outcome: str, seconds: float) -> None:
        """Count one answer."""


@dataclass(slots=True)
class _Record:
    """The last search for a job."""

    spec_key: str
    key: str
    base: str = ""
    fleet: str = ""
    standing: Standing | None = None
    given: Plan | None = None
    task: asyncio.Task[None] | None = None
    answer: Answer | None = None
    answered_at: datetime | None = None
    num_failures: int = 0
    left_out: tuple[str, ...] = ()
    on_paper: bool = False
    """On the whole fleet, reserving nothing: a queue says whose turn it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inquiry:
    """What is asked for a job at one moment."""

    spec: JobSpec
    free: ClusterSnapshot
    whole: ClusterSnapshot
    left_out: tuple[str, ...]
    question: PlanningProblem
    full: tuple[str, ...]
    """Which of what is left out are machines without room, as pods have shown."""

    full_gpus: int
    """How many GPUs these have that no other job holds."""

    @property
    def exact(self) -> Hashable:
        """What a refusal follows from: its words count all that is free."""
        return self.question.key, self.free.machines, self.whole.machines, self.left_out


@dataclass(slots=True)
class Planning:
    """The planning service of one operator process."""

    settings: PlannerSettings
    fleet_view: FleetView
    metrics: PlannerMetrics
    answered: Callable[[JobKey], None]
    """Called with a job's key when its answer is there."""

    ledger: Ledger = field(default_factory=Ledger)
    room: Room = field(default_factory=Room)
    processes: PlannerProcesses = field(init=False)
    _eligible: Eligible = field(init=False)
    _turns: asyncio.Semaphore = field(init=False)
    _answers: Answers = field(default_factory=Answers)
    _records: dict[str, _Record] = field(default_factory=dict)
    _differs_since: dict[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._eligible = Eligible(view=self.fleet_view, ledger=self.ledger)
        self.processes = PlannerProcesses(settings=self.settings)
        self._turns = asyncio.Semaphore(self.settings.workers)

    def wake(self) -> None:
        """Have a worker process ready before the first job asks."""
        self.processes.wake()

    def seen(
        self,
        job: JobSeen,
        plan: PlanSeen | None,
        *,
        base: str = "",
        on_paper: bool = False,
        given: PlanSeen | None = None,
    ) -> PlanningSeen:
        """Return where planning for a job stands.

        Args:
            job: the job.
            plan: the plan in force, if there is one.
            base: what another plan is wanted for while that one is in force, or what the plan is
                looked at for that the job names; empty: neither.
            given: the plan that the job names.
            on_paper: whether it waits in a queue, which others' reservations do not concern.
        """
        if job.wish is None:
            return PlanningSeen(spec_key="", key="", is_reserved=self.ledger.holds(job.uid))
        spec_key = planning_key(job.wish)
        record = self._records.get(job.uid)
        if record and record.spec_key != spec_key:
            record = None
        reserved = self.ledger.holds(job.uid)
        return PlanningSeen(
            spec_key=spec_key,
            # Costly on a large fleet, and asked only where there is a plan to be made.
            key=""
            if (plan and not base and plan.planned_for == spec_key)
            or (given and record and record.base == base and isinstance(record.answer, Plan))
            else self._key(
                job, job.wish, spec_key, base, on_paper=on_paper, is_given=given is not None
            ),
            is_running=record is not None and record.answer is None,
            answer=record.answer if record else None,
            answer_key=record.key if record else "",
            answer_base=record.base if record else "",
            answer_fleet=record.fleet if record else "",
            answered_at=record.answered_at if record else None,
            num_failures=record.num_failures if record else 0,
            left_out="; ".join(record.left_out) if record else "",
            is_reserved=reserved,
            holds_given=given is not None and self.ledger.holds_just(job.uid, given.plan),
            conflict=""
            if plan is None or reserved
            else (Ledger() if on_paper else self.ledger).conflict(
                job.uid, plan.plan, self._eligible.capacity(job.wish)
            ),
        )

    def fleet(self, job: JobSeen, plan: PlanSeen | None, now: datetime) -> FleetSeen:
        """Return the fleet that concerns a job, and since when it is not its plan's."""
        if job.wish is None or plan is None or not plan.fleet:
            return FleetSeen()
        key = self._eligible.digest(job.wish)
        if key == plan.fleet:
            self._differs_since.pop(job.uid, None)
            return FleetSeen(key=key)
        since, last = self._differs_since.get(job.uid), job.status.last_replan
        # What was decided since is about the fleet of then: what changed later settles anew.
        if since is None or (last and last.time >= since):
            since = min(now, self.fleet_view.fleet_changed_at())
            self._differs_since[job.uid] = since
        return FleetSeen(key=key, differs_since=since)

    def start(self, job: JobSeen, wish: Wish, asked: StartPlanning) -> None:
        """Have a plan made when it is the job's turn; a search for an earlier wish is forgotten."""
        spec_key, last = planning_key(wish), self._records.get(job.uid)
        is_again = last is not None and (last.spec_key, last.base) == (spec_key, asked.base)
        record = _Record(
            spec_key=spec_key,
            key=asked.key,
            base=asked.base,
            standing=self._standing(job, wish, asked) if asked.standing else None,
            given=asked.given,
            num_failures=last.num_failures if last and is_again else 0,
            on_paper=asked.on_paper,
        )
        self.forget(job.uid)
        record.task = asyncio.create_task(self._search(job, wish, record))
        self._records[job.uid] = record

    def reserve(self, job: JobSeen, wish: Wish, plan: Plan) -> str:
        """Reserve a plan's GPUs; return why not, and forget the answer that came too late."""
        conflict = self.ledger.reserve(job.uid, plan, self._eligible.capacity(wish))
        if conflict:
            self._records.pop(job.uid, None)
        return conflict

    def forget(self, uid: str) -> None:
        """Drop a job's search and answer."""
        record = self._records.pop(uid, None)
        if record and record.task:
            record.task.cancel()

    def drop(self, uid: str) -> None:
        """Leave nothing behind of a job that is gone."""
        self.forget(uid)
        self._differs_since.pop(uid, None)
        self.room.forget(uid)

    async def close(self) -> None:
        """Stop the worker processes."""
        for uid in list(self._records):
            self.forget(uid)
        await self.processes.close()

    def _key(
        self,
        job: JobSeen,
        wish: Wish,
        spec_key: str,
        base: str,
        *,
        on_paper: bool,
        is_given: bool,
    ) -> str:
        usable = self._usable(job, wish, on_paper=on_paper, is_given=is_given)
        asked = planning_problem(usable, wish.spec)
        # All else that a plan follows from is in the digest of the spec's planning fields.
        interval = str(wish.spec.training.checkpoint_every_steps)
        return digest_of(spec_key, base, interval, unnamed_fleet_text(asked.fleet))

    def _usable(
        self, job: JobSeen, wish: Wish, *, on_paper: bool, is_given: bool
    ) -> ClusterSnapshot:
        """Return what a job may be planned on.

        Machines without room count for a plan that the job names: its pods wait for them, and
        there is no other plan to go to.
        """
        if on_paper:
            return self._eligible.whole(wish)
        free = self._eligible.free(job.uid, wish)
        return free if is_given else self.room.within(job.uid, free, self.ledger.held_by(job.uid))

    def _standing(self, job: JobSeen, wish: Wish, asked: StartPlanning) -> Standing:
        assert asked.standing
        used = gpus_by_machine(asked.standing)
        full = self.room.closed(job.uid, self._eligible.whole(wish))
        return Standing(
            plan=asked.standing,
            keeps_trainer=asked.keeps_trainer,
            enough_percent=asked.enough_percent,
            closed=(
                *self._eligible.closed(wish, used),
                *(each for each in full if each.node in used),
            ),
        )

    async def _search(self, job: JobSeen, wish: Wish, record: _Record) -> None:
        started = asyncio.get_running_loop().time()
        record.answer = await self._answer(job, wish, record)
        record.answered_at = datetime.now(UTC)
        has_failed = isinstance(record.answer, PlannerTrouble)
        record.num_failures = record.num_failures + 1 if has_failed else 0
        seconds = asyncio.get_running_loop().time() - started
        outcome = type(record.answer).__name__
        log.info(
            "planned: job=%s/%s outcome=%s seconds=%.2f", job.namespace, job.name, outcome, seconds
        )
        self.metrics.solved(outcome=outcome, seconds=seconds)
        self.answered((job.namespace, job.name))

    async def _answer(self, job: JobSeen, wish: Wish, record: _Record) -> Answer:
        """Wait for our turn unless the answer is known, and ask until its GPUs are ours."""
        since = asyncio.get_running_loop().time()
        found = self._known(job, wish, record, since=since)
        if found is None:
            async with self._turns:
                # What is free has changed while we waited, and so has what is known.
                while found is None:
                    found = self._known(job, wish, record, since=since) or await self._made(
                        job, wish, record
                    )
        return found

    def _known(self, job: JobSeen, wish: Wish, record: _Record, *, since: float) -> Answer | None:
        """Return what others who asked the same were answered."""
        asked = self._inquiry(job, wish, record)
        if asked is None:
            return Infeasible(reasons=("spec.planning.objective.deadline.finishBefore is over",))
        if record.standing or record.given:
            return None
        record.fleet = self._eligible.digest(wish)
        plan = self._answers.plan(asked.question, since=since)
        if plan is None:
            return self._answers.refusal(asked.exact, since=since)
        return plan if self._hold(job, wish, record, plan) else None

    async def _made(self, job: JobSeen, wish: Wish, record: _Record) -> Answer | None:
        """Have the planner answer; None where others have taken the plan's GPUs meanwhile."""
        asked = self._inquiry(job, wish, record)
        assert asked, "a deadline that is over is known"
        record.key = self._key(
            job,
            wish,
            record.spec_key,
            record.base,
            on_paper=record.on_paper,
            is_given=record.given is not None,
        )
        record.left_out, record.fleet = asked.left_out, self._eligible.digest(wish)
        found = await self.processes.ask(
            Asked(
                job=asked.spec,
                free=asked.free,
                fleet=asked.whole,
                left_out=asked.left_out,
                full=asked.full,
                full_gpus=asked.full_gpus,
                standing=record.standing,
                given=record.given,
                fits_fleet=self._answers.fits(planning_problem(asked.whole, asked.spec)),
            )
        )
        if not record.standing and not record.given:
            at = asyncio.get_running_loop().time()
            self._answers.learn(asked.question, asked.exact, found, at=at)
        return found if self._hold(job, wish, record, found) else None

    def _inquiry(self, job: JobSeen, wish: Wish, record: _Record) -> _Inquiry | None:
        """Return what is to be asked now; None where the job's deadline is over."""
        spec = from_now(wish.spec, job, datetime.now(UTC))
        if spec is None:
            return None
        on_paper, is_given = record.on_paper, record.given is not None
        free = self._usable(job, wish, on_paper=on_paper, is_given=is_given)
        unheld = self._usable(job, wish, on_paper=on_paper, is_given=True)
        whole = self._eligible.whole(wish)
        full = () if on_paper or is_given else self.room.left_out(job.uid, whole)
        return _Inquiry(
            spec=spec,
            free=free,
            whole=whole,
            left_out=(*self._eligible.left_out(wish), *full),
            question=planning_problem(free, spec),
            full=full,
            full_gpus=unheld.num_gpus - free.num_gpus,
        )

    def _hold(self, job: JobSeen, wish: Wish, record: _Record, found: Answer) -> bool:
        """Make a new plan's GPUs the job's; tell whether they still could be."""
        if not isinstance(found, Plan) or record.base or obstacles(found, wish.spec):
            return True
        if record.on_paper or wish.written.planning.mode is PlanningMode.PLAN_ONLY:
            return True
        return not self.ledger.reserve(job.uid, found, self._eligible.capacity(wish))


_NO_QUESTION = dict.fromkeys(("mode", "plan_ref", "history_limit", "replan"))
"""Fields of ``spec.planning`` that no plan follows from."""


def planning_key(wish: Wish) -> str:
    """Digest the fields that a plan follows from; suspending a job is not among them."""
    written = wish.written
    fields = {
        "model": written.model,
        "algorithm": written.algorithm,
        "data": written.data,
        "resources": written.resources,
        "rollout": written.rollout,
        "planning": written.planning.model_copy(update=_NO_QUESTION),
    }
    values = {
        name: each.model_dump(mode="json", exclude_defaults=True, warnings=False)
        for name, each in fields.items()
    }
    values["runtime"] = {"engine": written.runtime.engine}
    values["training"] = {"steps": written.training.steps}
    text = json.dumps(values, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:32]


def from_now(spec: JobSpec, job: JobSeen, now: datetime) -> JobSpec | None:
    """Take off a deadline the time and the steps that are over; None when it is over."""
    objective = spec.planning.objective
    if not isinstance(objective, MeetDeadline):
        return spec
    left = objective.seconds_left - (now - job.created_at).total_seconds()
    if left <= 0:
        return None
    done = job.status.progress.step if job.status.progress else 0
    return replace(
        spec,
        planning=replace(spec.planning, objective=MeetDeadline(left)),
        training=replace(spec.training, steps=max(1, spec.training.steps - done)),
    )
