"""What runs in a planner's worker process: one job, one fleet, one answer.

Imported by a fresh interpreter, with no event loop and no Kubernetes in it.
"""

import resource
import time

from hetrl_core.cluster import ClusterSnapshot
from hetrl_core.job import JobSpec
from hetrl_core.plan import Infeasible, Plan
from hetrl_core.units import MIB
from hetrl_operator.observed import Occupied
from hetrl_planner.plan_job import plan
from hetrl_planner.rollouts_anew import rollouts_anew


def limit_memory(memory_mib: int) -> None:
    """Let a search that grows without end fail by itself instead of taking the operator down."""
    limit = memory_mib * MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def answer(
    job: JobSpec,
    free: ClusterSnapshot,
    fleet: ClusterSnapshot,
    left_out: tuple[str, ...],
    keep: Plan | None = None,
) -> Plan | Infeasible | Occupied:
    """Plan a job on what is free; if that fails, say whether others are in the way.

    Args:
        job: what to plan.
        free: the fleet less what other jobs hold.
        fleet: the whole fleet.
        left_out: why machines with GPUs are in neither.
        keep: the plan that the job runs by, if its trainers should stay where they are.
    """
    beside = _beside(job, free, keep) if keep else None
    found = beside or _plan(job, free)
    if isinstance(found, Plan):
        return found
    if free != fleet and isinstance(_plan(job, fleet), Plan):
        return Occupied(reasons=found.reasons, held_gpus=fleet.num_gpus - free.num_gpus)
    return Infeasible(reasons=(*found.reasons, *left_out))


def _beside(job: JobSpec, free: ClusterSnapshot, keep: Plan) -> Plan | None:
    ends_at = time.monotonic() + job.planning.time_budget_seconds
    return rollouts_anew(keep, free, job, should_stop=lambda: time.monotonic() >= ends_at)


def _plan(job: JobSpec, fleet: ClusterSnapshot) -> Plan | Infeasible:
    if not fleet.machines:
        return Infeasible(reasons=("no eligible node has a free GPU of a known kind",))
    ends_at = time.monotonic() + job.planning.time_budget_seconds
    return plan(fleet, job, should_stop=lambda: time.monotonic() >= ends_at, runnable_only=True)
