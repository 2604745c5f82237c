"""Scores of rollouts beside trainers and inference workers that stay, by the cost model."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan, ReplicaGroup
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation, Misfit
from hetrl_planner.layout.layout import Layout, TaskLayout
from hetrl_planner.layout.objective import Objective, Score
from hetrl_planner.layout.to_plan import prediction
from hetrl_planner.phase1.space import Space, space_of
from hetrl_planner.phase1.to_layout import GpuCounter
from hetrl_planner.problem.goals import goal_of

Rollouts = tuple[ReplicaGroup, ...]


def sides(plan: Plan) -> tuple[tuple[ReplicaGroup, ...], Rollouts] | None:
    """Return the groups that train or score, and those that generate; None if they share GPUs."""
    staying = tuple(each for each in plan.groups if Task.ACTOR_GENERATION not in each.tasks)
    rollouts = tuple(each for each in plan.groups if each.tasks == (Task.ACTOR_GENERATION,))
    shares_gpus = len(staying) + len(rollouts) != len(plan.groups) or is_split_differently(plan)
    return None if shares_gpus else (staying, rollouts)


def is_split_differently(plan: Plan) -> bool:
    """Tell whether tasks share GPUs but are split differently."""
    return any(
        share.first_gpu is not None
        for group in plan.groups
        for replica in group.replicas
        for share in replica.shares
    )


@dataclass(frozen=True, kw_only=True)
class RolloutPricer:
    """A cost model of rollouts beside the groups of a job that stay."""

    space: Space
    job: JobSpec
    staying: tuple[ReplicaGroup, ...]
    """Groups that do not move."""

    @staticmethod
    def of(
        staying: tuple[ReplicaGroup, ...], snapshot: ClusterSnapshot, job: JobSpec
    ) -> "RolloutPricer":
        """Return the pricer for the groups of a plan that a job keeps on a fleet."""
        space = space_of(snapshot, job, runnable_only=True)
        return RolloutPricer(space=space, job=job, staying=staying)

    @cached_property
    def evaluator(self) -> Evaluator:
        """The cost model on the job's devices."""
        devices = Devices(snapshot=self.space.snapshot, sites=self.space.sites)
        return Evaluator(self.space.work, devices)

    @cached_property
    def objective(self) -> Objective:
        """The job's goal and limits."""
        return Objective(
            goal=goal_of(self.job), limits=self.space.limits, devices=self.evaluator.devices
        )

    @cached_property
    def sizes(self) -> Counter[str]:
        """GPUs of each machine that the job may use."""
        devices = self.evaluator.devices
        return Counter(dict(zip(devices.machine_names, devices.machine_sizes, strict=True)))

    def free(self, rollouts: Rollouts) -> Counter[str]:
        """Return the free GPUs by machine; negative if the groups do not fit."""
        free = Counter(self.sizes)
        for group in (*self.staying, *rollouts):
            for replica in group.replicas:
                for share in replica.shares:
                    free[share.machine] -= share.num_gpus
        return free

    @property
    def fits(self) -> bool:
        """Whether the machines have the GPUs of the groups that stay."""
        return min(self.free(()).values(), default=0) >= 0

    def score(self, rollouts: Rollouts) -> Score:
        """Return the score of rollouts; smaller is better."""
        return self.objective.score(self.evaluation(rollouts))

    def score_of_any_number(self, rollouts: Rollouts) -> Score:
        """Return the score of rollouts, ignoring the number that the job requests."""
        limits = replace(self.space.limits, min_replicas=1, max_replicas=None)
        return replace(self.objective, limits=limits).score(self.evaluation(rollouts))

    def costs(self, rollouts: Rollouts) -> Evaluation | Misfit:
        """Return the cost of these rollouts, or without any, of groups that stay and generate."""
        return self.evaluator.evaluate(self._layout(rollouts))

    def evaluation(self, rollouts: Rollouts) -> Evaluation | None:
        """Return the cost of rollouts; None if they do not fit or there are none."""
        return self._evaluated(rollouts) if rollouts else None

    def whole(self) -> Evaluation | None:
        """Return the cost of the groups that stay, if they generate."""
        return self._evaluated(())

    def _evaluated(self, rollouts: Rollouts) -> Evaluation | None:
        found = self.costs(rollouts)
        if not isinstance(found, Evaluation):
            return None
        generating = (
            each for each in (*self.staying, *rollouts) if Task.ACTOR_GENERATION in each.tasks
        )
        asked = sum(len(each.replicas) for each in generating)
        # The evaluation drops rollouts that are always too late.
        kept = len(found.layout.task(Task.ACTOR_GENERATION).replicas)
        return found if kept == asked else None

    def plan(self, like: Plan, rollouts: Rollouts) -> Plan | None:
        """Return a plan with these rollouts; None if it breaks a limit or does not fit."""
        found = self.evaluation(rollouts)
        if found is None or self.objective.excess(found):
            return None
        return replace(
            like,
            groups=(*self.staying, *self.described(rollouts, found)),
            prediction=prediction(found, self.space.work),
            gap=None,
            rejected=(),
        )

    def described(self, rollouts: Rollouts, found: Evaluation) -> Rollouts:
        """Return the groups with the rates expected now."""
        cost = found.tasks[Task.ACTOR_GENERATION]
        memory = self.evaluator.memory(found)
        layouts = iter(found.layout.task(Task.ACTOR_GENERATION).replicas)
        described, first = [], 0
        for group in rollouts:
            last = first + len(group.replicas)
            gpus = [gpu for _ in group.replicas for stage in next(layouts) for gpu in stage.gpus]
            described.append(
                replace(
                    group,
                    replicas=tuple(
                        replace(each, work_share=share)
                        for each, share in zip(group.replicas, cost.shares[first:last], strict=True)
                    ),
                    # A running pod keeps its concurrency; a new one starts with the best value.
                    concurrency=group.concurrency or max(cost.concurrency[first:last]),
                    samples_per_second=sum(cost.rates[first:last]) / (last - first),
                    memory=max((memory[gpu] for gpu in gpus), key=lambda use: use.total_bytes),
                )
            )
            first = last
        return tuple(described)

    def _layout(self, rollouts: Rollouts) -> Layout:
        counter = GpuCounter(self.evaluator.devices)
        by_tasks: dict[tuple[Task, ...], list[ReplicaGroup]] = defaultdict(list)
        for group in (*self.staying, *rollouts):
            by_tasks[group.tasks].append(group)
        return Layout(tuple(_laid(alike, counter) for alike in by_tasks.values()))


def _laid(alike: Sequence[ReplicaGroup], counter: GpuCounter) -> tuple[TaskLayout, ...]:
    """Return the tasks of groups with equal tasks, on the next GPUs of their machines."""
    tasks, mode = alike[0].tasks, alike[0].training_mode
    replicas = counter.replicas(alike)
    return tuple(
        TaskLayout(task, replicas, mode if task in TRAINING_TASKS else None) for task in tasks
    )
