"""What a planner's process is asked: values that are sent to it, and nothing that searches.

What it answers is in ``plan_worker``; when it is asked, in ``planning``.
"""

from dataclasses import dataclass, replace

from hetrl_api.fleet.place import Absence
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan
from hetrl_core.task import Task
from hetrl_operator.planning.reservations import gpus_by_machine


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentPlan:
    """The plan that a job runs by, and what is asked of another one."""

    plan: Plan
    keeps_trainer: bool
    """Whether trainers should stay where they are if they can."""

    enough_percent: float | None = None
    """Where something better is asked for: the gain that makes a whole plan needless."""

    closed: tuple[Absence, ...] = ()
    """Those of its machines that take no new pods."""

    def opened(self, free: ClusterSnapshot, *, with_rollouts: bool) -> ClusterSnapshot:
        """Return a fleet with what the job holds of closed machines, for it to keep.

        Without its rollouts it is that of the groups which stay while rollouts change.
        """
        groups = [
            each
            for each in self.plan.groups
            if with_rollouts or Task.ACTOR_GENERATION not in each.tasks
        ]
        held = gpus_by_machine(replace(self.plan, groups=tuple(groups)))
        kinds = {each.name: each for each in free.gpu_kinds}
        machines = []
        for each in self.closed:
            if each.machine and each.kind and held[each.node]:
                kinds.setdefault(each.kind.name, each.kind)
                machines.append(replace(each.machine, num_gpus=held[each.node]))
        return ClusterSnapshot(
            gpu_kinds=tuple(kinds.values()), machines=(*free.machines, *machines), links=free.links
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What one answer is made from."""

    job: JobSpec
    free: ClusterSnapshot
    """The fleet less what other jobs hold."""

    fleet: ClusterSnapshot
    left_out: tuple[str, ...]
    """Why machines with GPUs are in neither."""

    full: tuple[str, ...] = ()
    """Why machines without room are not in ``free``, which are in ``left_out`` as well."""

    full_gpus: int = 0
    """How many GPUs these have that no other job holds."""

    current: CurrentPlan | None = None
    """The plan that the job runs by, if it runs."""

    manual_plan: Plan | None = None
    """The plan that is to be looked at; None: one is searched for."""

    fits_fleet: bool = False
    """Whether the whole fleet is known to have a plan for the job."""
