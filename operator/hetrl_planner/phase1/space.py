"""The space of a job's plans: every candidate of every site, and the limits.

``milp`` chooses from it, ``iterate`` searches it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_planner.hetrl.genome.groupings import disjoint, groupings
from hetrl_planner.phase1.candidates import (
    RolloutCandidate,
    TrainingCandidate,
    rollout_candidates,
    training_candidates,
)
from hetrl_planner.problem.goals import Limits
from hetrl_planner.problem.sites import Site, sites
from hetrl_planner.problem.workload import Workload, workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Everything to choose from, in all regions."""

    work: Workload
    snapshot: ClusterSnapshot
    sites: tuple[Site, ...]
    rollouts: tuple[RolloutCandidate, ...]
    trainings: tuple[TrainingCandidate, ...]
    limits: Limits
    runnable_only: bool = False
    """Whether plans that this release cannot run are left out."""

    @staticmethod
    def of(
        work: Workload,
        snapshot: ClusterSnapshot,
        here: Sequence[Site],
        limits: Limits,
        *,
        runnable_only: bool,
    ) -> "Space":
        """Return every candidate of some sites."""
        number_is_free = limits.max_replicas is None and limits.min_replicas == 1
        return Space(
            work=work,
            snapshot=snapshot,
            sites=tuple(here),
            rollouts=tuple(
                candidate
                for site in here
                for candidate in rollout_candidates(
                    site, work, snapshot, runnable_only=runnable_only, merge=number_is_free
                )
            ),
            trainings=tuple(
                candidate
                for site in here
                for candidate in training_candidates(
                    site, work, snapshot, runnable_only=runnable_only
                )
            ),
            limits=limits,
            runnable_only=runnable_only,
        )

    @property
    def kinds(self) -> list[str]:
        """Names of the GPU kinds."""
        return sorted({site.kind.name for site in self.sites})

    @property
    def has_choices(self) -> bool:
        """Whether phase 1's choices are plans: all tasks but generation share GPUs in them."""
        tasks = self.work.tasks
        return disjoint(tasks) in groupings(tasks, runnable_only=self.runnable_only)

    def only(self, *, kind: str | None = None, training_kind: str | None = None) -> "Space":
        """Return the part that uses one GPU kind, or that trains on one."""
        return replace(
            self,
            sites=tuple(each for each in self.sites if kind in {None, each.kind.name}),
            rollouts=tuple(each for each in self.rollouts if kind in {None, each.site.kind.name}),
            trainings=tuple(
                each
                for each in self.trainings
                if kind in {None, each.site.kind.name}
                and training_kind in {None, each.site.kind.name}
            ),
        )


def space_of(
    snapshot: ClusterSnapshot, job: JobSpec, *, runnable_only: bool, may_be_apart: bool = True
) -> Space:
    """Return the space of a job's plans on a fleet.

    In asynchronous modes generation and training compute at the same time, so runnable plans give
    them separate GPUs, unless ``may_be_apart`` is false.
    """
    assert job.model.architecture is not None
    work = workload(job, job.model.architecture, programs_stay=runnable_only)
    if runnable_only and not work.is_synchronous and may_be_apart:
        # Programs that compute at once on one GPU slow each other by an unknown amount.
        work = replace(work, generation_apart=True)
    here = sites(snapshot, job.resources)
    rollout = job.rollout
    limits = Limits(
        budget_dollars_per_hour=job.resources.budget_dollars_per_hour,
        max_gpus=job.resources.max_gpus,
        min_replicas=rollout.replicas or rollout.min_replicas,
        max_replicas=rollout.replicas or rollout.max_replicas,
    )
    return Space.of(work, snapshot, here, limits, runnable_only=runnable_only)
