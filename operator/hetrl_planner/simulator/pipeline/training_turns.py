"""Time for which a batch keeps the training groups of a plan busy.

A critic that is trained on other GPUs than its policy reads the same batch at the same time, and
scoring tasks of both are part of that. ``compile`` handles all other scoring.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from hetrl_core.plan.plan import ReplicaGroup
from hetrl_core.task import Task
from hetrl_planner.cost.inference import inference_pace
from hetrl_planner.cost.stage import PlacedStage
from hetrl_planner.cost.training import proximal_seconds
from hetrl_planner.problem.workload import Workload
from hetrl_planner.simulator.pipeline.placed import PlacedGroup


class TrainingTurns:
    """Trainings of one plan, by place: the GPUs that tasks share, or a task with its own."""

    def __init__(
        self,
        placed: Sequence[PlacedGroup],
        work: Workload,
        stages: Callable[[ReplicaGroup], Sequence[PlacedStage]],
    ) -> None:
        """Take a plan's groups; ``stages`` returns those of a group's replicas."""
        self._placed = placed
        self._work = work
        self._stages = stages

    @property
    def main(self) -> str:
        """The place where the actor is trained."""
        return next(name for name, tasks in self.tasks.items() if Task.ACTOR_TRAINING in tasks)

    @cached_property
    def tasks(self) -> dict[str, tuple[Task, ...]]:
        """The trained tasks, by place."""
        return {name: tuple(tasks) for name, tasks in self._trained.items()}

    @cached_property
    def seconds(self) -> dict[str, float]:
        """The seconds that each place works on a batch, from its beginning."""
        before_gradient = max(self._before_gradient.values(), default=0.0)
        return {
            name: before_gradient + sum(tasks.values()) for name, tasks in self._trained.items()
        }

    def keeps_step(self, placed: PlacedGroup) -> bool:
        """Tell whether a group scores where one of two models is trained."""
        return self._is_parted and bool(placed.scored_by) and placed.shared in self._trained

    def scoring_seconds(self, group: ReplicaGroup) -> float:
        """Return the time of a group's replicas to score their shares of a batch."""
        return inference_pace(self._work, self._stages(group)).seconds(self._most(group))

    @property
    def _is_parted(self) -> bool:
        return len(self._trained) > 1

    @cached_property
    def _trained(self) -> dict[str, dict[Task, float]]:
        """Seconds of the tasks that train, by place, without what comes before any gradient.

        Replicas of a task, and tasks on GPUs of their own, work side by side; tasks on the same
        GPUs take turns.
        """
        trained: dict[str, dict[Task, float]] = defaultdict(dict)
        for each in self._placed:
            for task in each.trained_by:
                here = trained[each.shared or task]
                here[task] = max(self._training_seconds(each, task), here.get(task, 0.0))
        if len(trained) > 1:
            for tasks in trained.values():
                if Task.ACTOR_TRAINING in tasks:
                    tasks[Task.ACTOR_TRAINING] -= self._policy_proximal_seconds
        return trained

    @cached_property
    def _before_gradient(self) -> dict[str, float]:
        """Seconds before any gradient, by place, where two places keep step."""
        before_gradient: dict[str, float] = defaultdict(float)
        if self._is_parted:
            before_gradient[self.main] += self._policy_proximal_seconds
            for name, seconds in self._scored():
                before_gradient[name] += seconds
        return before_gradient

    def _scored(self) -> Iterator[tuple[str, float]]:
        """Yield the place of each task that scores where something is trained, and its time."""
        scored: dict[tuple[str, Task], float] = defaultdict(float)
        for each in filter(self.keeps_step, self._placed):
            for task in each.scored_by:
                seconds = self.scoring_seconds(each.group)
                scored[each.shared, task] = max(scored[each.shared, task], seconds)
        return ((name, seconds) for (name, _), seconds in scored.items())

    def _training_seconds(self, placed: PlacedGroup, task: Task) -> float:
        """Return a task's time for a batch; a group's rate is the policy's where it trains both."""
        group = placed.group
        seconds = max(
            self._work.batch_size * replica.work_share / group.samples_per_second
            for replica in group.replicas
        )
        is_beside = task is Task.CRITIC_TRAINING and Task.ACTOR_TRAINING in placed.trained_by
        return seconds - self._proximal_seconds(group) if is_beside else seconds

    @property
    def _policy_proximal_seconds(self) -> float:
        return max(
            self._proximal_seconds(each.group)
            for each in self._placed
            if Task.ACTOR_TRAINING in each.trained_by
        )

    def _proximal_seconds(self, group: ReplicaGroup) -> float:
        """Return the seconds of a policy in these replicas before the first gradient of a batch."""
        return self._most(group) * proximal_seconds(self._work, self._stages(group))

    def _most(self, group: ReplicaGroup) -> float:
        """Return the trajectories of a batch that the busiest of a group's replicas has."""
        return self._work.batch_size * max(replica.work_share for replica in group.replicas)
