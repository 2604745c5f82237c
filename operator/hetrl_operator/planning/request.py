"""The request to a planner's process, as values that can be pickled.

``worker`` answers requests, and ``service`` makes them.
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
    """The plan that a job runs by, and the requirements for another one."""

    plan: Plan
    keeps_trainer: bool
    """Whether trainers should keep their machines if possible."""

    enough_percent: float | None = None
    """The gain in percent that other rollouts alone must bring, so that no whole new plan is
    searched. If set, the answer is alternatives to the current plan; None: it is one plan."""

    closed: tuple[Absence, ...] = ()
    """Machines of the plan that take no new pods."""

    def opened(self, free: ClusterSnapshot, *, with_rollouts: bool) -> ClusterSnapshot:
        """Return a fleet with the GPUs that the job holds on closed machines, for it to keep.

        Args:
            free: the fleet without these.
            with_rollouts: whether to include the GPUs of the job's rollouts.
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
    """The inputs of one planner's answer."""

    job: JobSpec
    free: ClusterSnapshot
    """The fleet without the GPUs of other jobs."""

    fleet: ClusterSnapshot
    left_out: tuple[str, ...]
    """Why machines with GPUs are in neither fleet."""

    full: tuple[str, ...] = ()
    """The part of ``left_out`` that is machines without room; these are not in ``free``."""

    full_gpus: int = 0
    """GPUs of these machines that no other job holds."""

    current: CurrentPlan | None = None
    """The plan that the job runs by, if it runs."""

    manual_plan: Plan | None = None
    """The plan to validate; None: search for one."""

    fits_fleet: bool = False
    """Whether a plan on the whole fleet is known to exist."""
