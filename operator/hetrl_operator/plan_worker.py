"""What runs in a planner's worker process: one job, one fleet, one answer.

Imported by a fresh interpreter, with no event loop and no Kubernetes in it.
"""

import resource
import time
from dataclasses import dataclass

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


def wake() -> None:
    """Do nothing, in a process that has imported everything by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one answer is made from."""

    job: JobSpec
    free: ClusterSnapshot
    """The fleet less what other jobs hold."""

    fleet: ClusterSnapshot
    left_out: tuple[str, ...]
    """Why machines with GPUs are in neither."""

    keep: Plan | None = None
    """The plan that the job runs by, if its trainers should stay where they are."""

    fits_fleet: bool = False
    """Whether the whole fleet is known to have a plan for the job."""


def answer(asked: Asked) -> Plan | Infeasible | Occupied:
    """Plan a job on what is free; if that fails, say whether others are in the way."""
    job, free, fleet = asked.job, asked.free, asked.fleet
    beside = _beside(job, free, asked.keep) if asked.keep else None
    found = beside or _plan(job, free)
    if isinstance(found, Plan):
        return found
    if free != fleet and (asked.fits_fleet or isinstance(_plan(job, fleet), Plan)):
        return Occupied(reasons=found.reasons, held_gpus=fleet.num_gpus - free.num_gpus)
    return Infeasible(reasons=(*found.reasons, *asked.left_out))


def _beside(job: JobSpec, free: ClusterSnapshot, keep: Plan) -> Plan | None:
    ends_at = time.monotonic() + job.planning.time_budget_seconds
    return rollouts_anew(keep, free, job, should_stop=lambda: time.monotonic() >= ends_at)


def _plan(job: JobSpec, fleet: ClusterSnapshot) -> Plan | Infeasible:
    if not fleet.machines:
        return Infeasible(reasons=("no eligible node has a free GPU of a known kind",))
    ends_at = time.monotonic() + job.planning.time_budget_seconds
    return plan(fleet, job, should_stop=lambda: time.monotonic() >= ends_at, runnable_only=True)
