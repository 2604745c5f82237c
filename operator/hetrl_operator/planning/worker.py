"""The code of a planner's worker process: it answers one request for one job.

Plans of users are validated here as well, so that a malformed plan can only harm this process.
``worker_entry`` imports this module in a new interpreter, without an event loop or Kubernetes.
"""

import time
from collections.abc import Callable

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Infeasible, Plan, Prediction
from hetrl_operator.model.planning import Alternatives, InsufficientFreeGpus
from hetrl_operator.planning.request import CurrentPlan, PlanRequest
from hetrl_planner.plan_job import plan
from hetrl_planner.replan.alignment import aligned
from hetrl_planner.replan.improve import improve_rollouts, predict
from hetrl_planner.replan.resize import resize_rollouts
from hetrl_planner.replan.validate import machine_misfits, misfits


def answer(request: PlanRequest) -> Plan | Alternatives | Infeasible | InsufficientFreeGpus:
    """Plan a job on the free fleet; if that fails, say whether other jobs hold too many GPUs."""
    job, free, fleet, current = request.job, request.free, request.fleet, request.current
    if request.manual_plan:
        return _validated(request.manual_plan, request)
    if current and current.enough_percent is not None:
        return _alternatives(job, free, current)
    if current and current.keeps_trainer and (found := _beside(job, free, current)):
        return found
    whole = _plan(job, free)
    if isinstance(whole, Plan):
        return aligned(whole, current.plan, free) if current else whole
    if free != fleet and (request.fits_fleet or isinstance(_plan(job, fleet), Plan)):
        held = fleet.num_gpus - free.num_gpus - request.full_gpus
        return InsufficientFreeGpus(reasons=whole.reasons, held_gpus=held, full=request.full)
    return Infeasible(reasons=(*whole.reasons, *request.left_out))


def _validated(manual_plan: Plan, request: PlanRequest) -> Plan | Infeasible | InsufficientFreeGpus:
    """Return a manual plan unchanged if the job can run by it; the job may keep its own GPUs."""
    free, fleet = request.free, request.fleet
    if request.current:
        free, fleet = (request.current.opened(each, with_rollouts=True) for each in (free, fleet))
    found = misfits(manual_plan, fleet, request.job)
    if found:
        return Infeasible(reasons=(*found, *request.left_out))
    taken = machine_misfits(manual_plan, free, request.job)
    if taken:
        return InsufficientFreeGpus(reasons=taken, held_gpus=fleet.num_gpus - free.num_gpus)
    return manual_plan


def _beside(job: JobSpec, free: ClusterSnapshot, current: CurrentPlan) -> Plan | None:
    fleet = current.opened(free, with_rollouts=False)
    return resize_rollouts(current.plan, fleet, job, should_stop=_over(job))


def _alternatives(job: JobSpec, free: ClusterSnapshot, current: CurrentPlan) -> Alternatives:
    """Search for better rollouts, and for a whole plan if these gain too little."""
    assert current.enough_percent is not None
    whole_fleet = current.opened(free, with_rollouts=True)
    now = predict(current.plan, whole_fleet, job) or current.plan.prediction
    beside = current.opened(free, with_rollouts=False)
    better = improve_rollouts(current.plan, beside, job, should_stop=_over(job))
    if better and _gains_percent(now, better.prediction) >= current.enough_percent:
        return Alternatives(current=now, plans=(better,))
    found = _plan(job, free)
    whole = (aligned(found, current.plan, free),) if isinstance(found, Plan) else ()
    return Alternatives(current=now, plans=((better,) if better else ()) + whole)


def _gains_percent(before: Prediction, after: Prediction) -> float:
    """Return the gain in speed or in cost, whichever is larger."""
    faster = after.samples_per_second / before.samples_per_second - 1
    cheaper = 1 - after.dollars_per_hour / before.dollars_per_hour if before.dollars_per_hour else 0
    return 100 * max(faster, cheaper)


def _over(job: JobSpec) -> Callable[[], bool]:
    ends_at = time.monotonic() + job.planning.time_budget_seconds
    return lambda: time.monotonic() >= ends_at


def _plan(job: JobSpec, fleet: ClusterSnapshot) -> Plan | Infeasible:
    if not fleet.machines:
        return Infeasible(reasons=("no eligible node has a free GPU of a known kind",))
    return plan(fleet, job, should_stop=_over(job), runnable_only=True)
