"""Plans for jobs: the fleet as it is, the planner in processes of its own, and the ledger.

The event loop never computes a plan. Answers are remembered per job with the digest of what
they were made from, so that only a change of the job or of its fleet plans again.
"""

import asyncio
import json
import logging
import multiprocessing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Protocol

from pebble import ProcessExpired, ProcessPool

from hetrl_api.errors import InvalidObjectError
from hetrl_api.fleet import Fleet, fleet_of
from hetrl_api.planning import Replan
from hetrl_api.runtime import Toleration
from hetrl_api.topology import HetRLTopology
from hetrl_core.cluster import ClusterSnapshot
from hetrl_core.job import JobSpec, MeetDeadline, ResourcesSpec
from hetrl_core.plan import Infeasible, Plan
from hetrl_operator.actions import StartPlanning
from hetrl_operator.labels import Reason
from hetrl_operator.ledger import Ledger, gpus_by_machine, without
from hetrl_operator.nodes import untolerated
from hetrl_operator.observe import Body, JobKey
from hetrl_operator.observed import (
    Alternatives,
    Answer,
    FleetSeen,
    JobSeen,
    Occupied,
    PlannerTrouble,
    PlanningSeen,
    PlanSeen,
    Wish,
)
from hetrl_operator.plan_worker import Standing, answer, limit_memory
from hetrl_operator.settings import PlannerSettings

log = logging.getLogger(__name__)

_TASKS_PER_PROCESS = 200
"""After so many plans a worker is replaced: solvers do not give all their memory back."""


class FleetView(Protocol):
    """What planning reads of the cluster; ``views`` has it."""

    def nodes(self) -> Iterable[Body]:
        """Return slim Nodes."""

    def topologies(self) -> Iterable[HetRLTopology]:
        """Return every readable HetRLTopology."""

    def fleet_version(self) -> int:
        """Return a number that changes with the nodes or the topologies."""

    def fleet_changed_at(self) -> datetime:
        """Return when it last changed."""


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
    task: asyncio.Task[None] | None = None
    answer: Answer | None = None
    answered_at: datetime | None = None
    num_failures: int = 0
    left_out: tuple[str, ...] = ()


@dataclass(slots=True)
class Planning:
    """The planning service of one operator process."""

    settings: PlannerSettings
    fleet_view: FleetView
    metrics: PlannerMetrics
    answered: Callable[[JobKey], None]
    """Called with a job's key when its answer is there."""

    ledger: Ledger = field(default_factory=Ledger)
    _records: dict[str, _Record] = field(default_factory=dict)
    _fleets: dict[tuple[Toleration, ...], tuple[int, Fleet]] = field(default_factory=dict)
    _digests: dict[tuple[tuple[Toleration, ...], ResourcesSpec], tuple[int, str]] = field(
        default_factory=dict
    )
    _differs_since: dict[str, datetime] = field(default_factory=dict)
    _pool: ProcessPool | None = None

    def seen(self, job: JobSeen, plan: PlanSeen | None, *, base: str = "") -> PlanningSeen:
        """Return where planning for a job stands.

        Args:
            job: the job.
            plan: the plan in force, if there is one.
            base: what another plan is wanted for while that one is in force; empty: none is.
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
            if plan and not base and plan.planned_for == spec_key
            else self._key(job, job.wish, f"{spec_key} {base}"),
            is_running=record is not None and record.answer is None,
            answer=record.answer if record else None,
            answer_key=record.key if record else "",
            answer_base=record.base if record else "",
            answer_fleet=record.fleet if record else "",
            answered_at=record.answered_at if record else None,
            num_failures=record.num_failures if record else 0,
            left_out="; ".join(record.left_out) if record else "",
            is_reserved=reserved,
            conflict=""
            if plan is None or reserved
            else self.ledger.conflict(job.uid, plan.plan, self._capacity(job.wish)),
        )

    def fleet(self, job: JobSeen, plan: PlanSeen | None, now: datetime) -> FleetSeen:
        """Return the fleet that concerns a job, and since when it is not its plan's."""
        if job.wish is None or plan is None or not plan.fleet:
            return FleetSeen()
        key = self._digest(job.wish)
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
        """Have a plan made in a worker process; a search for an earlier wish is forgotten."""
        spec_key, last = planning_key(wish), self._records.get(job.uid)
        is_again = last is not None and (last.spec_key, last.base) == (spec_key, asked.base)
        record = _Record(
            spec_key=spec_key,
            key=asked.key,
            base=asked.base,
            fleet=self._digest(wish),
            standing=self._standing(wish, asked) if asked.standing else None,
            num_failures=last.num_failures if last and is_again else 0,
        )
        self.forget(job.uid)
        record.task = asyncio.create_task(self._search(job, wish, record))
        self._records[job.uid] = record

    def reserve(self, job: JobSeen, wish: Wish, plan: Plan) -> str:
        """Reserve a plan's GPUs; return why not, and forget the answer that came too late."""
        conflict = self.ledger.reserve(job.uid, plan, self._capacity(wish))
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

    async def close(self) -> None:
        """Stop the worker processes."""
        for uid in list(self._records):
            self.forget(uid)
        if self._pool:
            self._pool.stop()  # type: ignore[no-untyped-call]
            await asyncio.to_thread(self._pool.join)

    def _key(self, job: JobSeen, wish: Wish, spec_key: str) -> str:
        free = self._free(job, wish)
        parts = (spec_key, free.gpu_kinds, free.machines, free.links)
        return sha256(repr(parts).encode()).hexdigest()[:32]

    def _digest(self, wish: Wish) -> str:
        """Digest the machines, prices and links that concern a job, once for jobs alike."""
        key = (wish.written.runtime.pod_template.tolerations, wish.spec.resources)
        version = self.fleet_view.fleet_version()
        known = self._digests.get(key)
        if known is None or known[0] != version:
            known = (version, fleet_digest(self._fleet(wish).snapshot(wish.spec.resources)))
            self._digests[key] = known
        return known[1]

    def _standing(self, wish: Wish, asked: StartPlanning) -> Standing:
        assert asked.standing
        resources = wish.spec.resources
        return Standing(
            plan=asked.standing,
            keeps_trainer=asked.keeps_trainer,
            enough_percent=asked.enough_percent,
            closed=self._fleet(wish).closed(resources, gpus_by_machine(asked.standing)),
        )

    def _fleet(self, wish: Wish) -> Fleet:
        """Return the fleet that a job's pods tolerate, read again only when it has changed."""
        tolerations = wish.written.runtime.pod_template.tolerations
        version = self.fleet_view.fleet_version()
        known = self._fleets.get(tolerations)
        if known and known[0] == version:
            return known[1]
        fleet = fleet_of(
            self.fleet_view.nodes(),
            topologies=_usable(self.fleet_view.topologies()),
            bar=lambda node: untolerated(node, tolerations),
        )
        self._fleets[tolerations] = (version, fleet)
        return fleet

    def _capacity(self, wish: Wish) -> Mapping[str, int]:
        return {each.machine.name: each.machine.num_gpus for each in self._fleet(wish).places}

    def _free(self, job: JobSeen, wish: Wish) -> ClusterSnapshot:
        snapshot = self._fleet(wish).snapshot(wish.spec.resources)
        return without(snapshot, self.ledger.held_by_others(job.uid))

    async def _search(self, job: JobSeen, wish: Wish, record: _Record) -> None:
        started = asyncio.get_running_loop().time()
        record.left_out = self._fleet(wish).left_out(wish.spec.resources)
        record.answer = await self._ask(job, wish, record)
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

    async def _ask(self, job: JobSeen, wish: Wish, record: _Record) -> Answer:
        spec = from_now(wish.spec, job, datetime.now(UTC))
        if spec is None:
            return Infeasible(reasons=("spec.planning.objective.deadline.finishBefore is over",))
        fleet = self._fleet(wish)
        timeout = 2 * spec.planning.time_budget_seconds + self.settings.grace_seconds
        future = self._workers().schedule(
            answer,
            args=(
                spec,
                self._free(job, wish),
                fleet.snapshot(spec.resources),
                record.left_out,
                record.standing,
            ),
            timeout=timeout,
        )
        try:
            found: Plan | Alternatives | Infeasible | Occupied = await asyncio.wrap_future(future)
        except TimeoutError:
            text = f"the planner was stopped after {timeout:g} s without a plan"
            return PlannerTrouble(reason=Reason.SOLVER_TIMEOUT, message=text)
        except ProcessExpired as error:
            text = f"the planner's process died with exit code {error.exitcode}"
            return PlannerTrouble(reason=Reason.PLANNER_FAILED, message=text)
        except MemoryError:
            text = f"the planner needed more than {self.settings.memory_mib} MiB"
            return PlannerTrouble(reason=Reason.PLANNER_FAILED, message=text)
        except Exception as error:  # a planner's bug must not stop other jobs
            log.exception("planner failed: job=%s/%s", job.namespace, job.name)
            return PlannerTrouble(reason=Reason.PLANNER_FAILED, message=repr(error))
        return found

    def _workers(self) -> ProcessPool:
        if self._pool is None or not self._pool.active:
            self._pool = ProcessPool(
                max_workers=self.settings.workers,
                max_tasks=_TASKS_PER_PROCESS,
                initializer=limit_memory,
                initargs=(self.settings.memory_mib,),
                # A fork would copy our event loop, sockets and threads half-way.
                context=multiprocessing.get_context("spawn"),
            )
        return self._pool


def planning_key(wish: Wish) -> str:
    """Digest the fields that a plan follows from; suspending a job is not among them."""
    written = wish.written
    fields = {
        "model": written.model,
        "algorithm": written.algorithm,
        "data": written.data,
        "resources": written.resources,
        "rollout": written.rollout,
        "planning": written.planning.model_copy(update={"mode": None, "replan": Replan()}),
    }
    values = {
        name: each.model_dump(mode="json", exclude_defaults=True, warnings=False)
        for name, each in fields.items()
    }
    values["runtime"] = {"engine": written.runtime.engine}
    values["training"] = {"steps": written.training.steps}
    text = json.dumps(values, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:32]


def fleet_digest(snapshot: ClusterSnapshot) -> str:
    """Digest a fleet without the kinds and links that none of its machines has."""
    kinds = {each.gpu_kind for each in snapshot.machines}
    regions = {each.region for each in snapshot.machines}
    parts = (
        [each for each in snapshot.gpu_kinds if each.name in kinds],
        snapshot.machines,
        [each for each in snapshot.links if {each.source, each.target} <= regions],
    )
    return sha256(repr(parts).encode()).hexdigest()[:32]


def _usable(topologies: Iterable[HetRLTopology]) -> list[HetRLTopology]:
    """Return the topologies without their pools, leaving out those that contradict themselves.

    Pools are for planning without a cluster; here the nodes count. One bad topology must
    not keep every job from being planned.
    """
    usable = []
    for each in topologies:
        without_pools = each.spec.model_copy(update={"pools": ()})
        topology = each.model_copy(update={"spec": without_pools})
        try:
            fleet_of((), topologies=[topology])
        except InvalidObjectError as error:
            log.warning("topology left out: name=%s reason=%s", each.metadata.name, error)
        else:
            usable.append(topology)
    return usable


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
