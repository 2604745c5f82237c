"""The inputs that determine a plan, as a cache key: equal problems have equal plans.

Jobs that differ only in settings of training, such as their learning rates, have equal keys; so do
fleets that differ only in the names of machines. Callers decide how long to keep results.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan, Replica, ReplicaGroup
from hetrl_planner.problem.goals import goal_of
from hetrl_planner.problem.usable_machines import usable_machines
from hetrl_planner.problem.workload import Workload, workload


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningProblem:
    """A job and a fleet as ``plan_job.plan`` sees them."""

    fleet: ClusterSnapshot
    """The machines that the job can use, in the order of ``key``."""

    key: tuple[Any, ...]
    """Equal for equal problems; hashable."""

    def plan_from(self, plan: Plan, solved: "PlanningProblem") -> Plan:
        """Return the plan of an equal problem on the machines of this one."""
        ours = (each.name for each in self.fleet.machines)
        theirs = (each.name for each in solved.fleet.machines)
        names = dict(zip(theirs, ours, strict=True))
        return replace(plan, groups=tuple(_on(names, group) for group in plan.groups))


def planning_problem(snapshot: ClusterSnapshot, job: JobSpec) -> PlanningProblem:
    """Return the planning problem of a job on a fleet."""
    # Nodes that the job cannot use come and go: they must not change the key.
    fleet = usable_machines(snapshot, job.resources).without_unused()
    architecture = job.model.architecture
    work: Workload | str = workload(job, architecture) if architecture else job.model.source
    machines = tuple(
        (each.gpu_kind, each.region, each.zone, each.pool, each.num_gpus) for each in fleet.machines
    )
    return PlanningProblem(
        fleet=fleet,
        key=(
            work,
            goal_of(job),
            job.resources,
            job.rollout,
            job.planning,
            job.training.checkpoint_every_steps,
            fleet.gpu_kinds,
            fleet.links,
            machines,
        ),
    )


def _on(names: Mapping[str, str], group: ReplicaGroup) -> ReplicaGroup:
    return replace(group, replicas=tuple(_replica_on(names, each) for each in group.replicas))


def _replica_on(names: Mapping[str, str], replica: Replica) -> Replica:
    shares = tuple(replace(each, machine=names[each.machine]) for each in replica.shares)
    return replace(replica, shares=shares)
