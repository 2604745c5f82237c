"""What runs in a planner's worker process: one job, one fleet, one answer.

A plan that somebody wrote is looked at here as well: whatever is in it, only this process can come
to harm.

Imported by a fresh interpreter, with no event loop and no Kubernetes in it, through
``planner_entry``.
"""

import time
from collections.abc import Callable

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Infeasible, Plan, Prediction
from hetrl_operator.model.observed import Alternatives, Occupied
from hetrl_operator.planning.request import Asked, Standing
from hetrl_planner.plan_job import plan
from hetrl_planner.replan.alignment import aligned
from hetrl_planner.replan.improve import improve_rollouts, predict
from hetrl_planner.replan.resize import resize_rollouts
from hetrl_planner.replan.validate import machine_misfits, misfits


def answer(asked: Asked) -> Plan | Alternatives | Infeasible | Occupied:
    """Plan a job on what is free; if that fails, say whether others are in the way."""
    job, free, fleet, standing = asked.job, asked.free, asked.fleet, asked.standing
    if asked.given:
        return _looked_at(asked.given, asked)
    if standing and standing.enough_percent is not None:
        return _alternatives(job, free, standing)
    if standing and standing.keeps_trainer and (found := _beside(job, free, standing)):
        return found
    whole = _plan(job, free)
    if isinstance(whole, Plan):
        return aligned(whole, standing.plan, free) if standing else whole
    if free != fleet and (asked.fits_fleet or isinstance(_plan(job, fleet), Plan)):
        held = fleet.num_gpus - free.num_gpus - asked.full_gpus
        return Occupied(reasons=whole.reasons, held_gpus=held, full=asked.full)
    return Infeasible(reasons=(*whole.reasons, *asked.left_out))


def _looked_at(given: Plan, asked: Asked) -> Plan | Infeasible | Occupied:
    """Return a plan as it is if the job can run by it; what it stands on already, it may keep."""
    free, fleet = asked.free, asked.fleet
    if asked.standing:
        free, fleet = (asked.standing.opened(each, with_rollouts=True) for each in (free, fleet))
    found = misfits(given, fleet, asked.job)
    if found:
        return Infeasible(reasons=(*found, *asked.left_out))
    taken = machine_misfits(given, free, asked.job)
    if taken:
        return Occupied(reasons=taken, held_gpus=fleet.num_gpus - free.num_gpus)
    return given


def _beside(job: JobSpec, free: ClusterSnapshot, standing: Standing) -> Plan | None:
    fleet = standing.opened(free, with_rollouts=False)
    return resize_rollouts(standing.plan, fleet, job, should_stop=_over(job))


def _alternatives(job: JobSpec, free: ClusterSnapshot, standing: Standing) -> Alternatives:
    """Look for better rollouts, and for a whole plan where these are not good enough."""
    assert standing.enough_percent is not None
    whole_fleet = standing.opened(free, with_rollouts=True)
    now = predict(standing.plan, whole_fleet, job) or standing.plan.prediction
    beside = standing.opened(free, with_rollouts=False)
    better = improve_rollouts(standing.plan, beside, job, should_stop=_over(job))
    if better and _gains_percent(now, better.prediction) >= standing.enough_percent:
        return Alternatives(standing=now, plans=(better,))
    found = _plan(job, free)
    whole = (aligned(found, standing.plan, free),) if isinstance(found, Plan) else ()
    return Alternatives(standing=now, plans=((better,) if better else ()) + whole)


def _gains_percent(before: Prediction, after: Prediction) -> float:
    """Return by how much faster or cheaper something is, whichever is more."""
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
