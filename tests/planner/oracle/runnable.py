"""The best layout that this release runs, each that may be it priced whole.

From the lists of planner and runtime: every grouping, every split that is not refused, tasks that
share GPUs cut alike. The time of one group alone is a bound: a group whose bound is no better than
the best so far is skipped; a bound may lie above the step by the tolerance of generation's pace.
Only for two to four GPUs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hetrl_core.plan.capabilities import split_obstacle
from hetrl_core.plan.groupings import GROUPINGS, TaskGroup
from hetrl_core.plan.plan import Parallelism
from hetrl_core.task import TRAINING_TASKS, Task, asked_of_workers
from hetrl_planner.cost.rollouts import PRECISION
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation, Misfit
from hetrl_planner.layout.layout import Layout, TaskLayout
from hetrl_planner.problem.workload import Workload
from tests.planner.oracle.cuts import Cuts

Group = tuple[TaskLayout, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """One way of a group, and what it takes alone."""

    group: Group
    gpus: frozenset[int]
    seconds: float
    generating_seconds: float


def best_that_runs(evaluator: Evaluator) -> Evaluation | None:
    """Return the fastest layout that runs, ``None`` if none fits."""
    return _Search(evaluator).best()


def _is_busy_at_once(group: TaskGroup) -> bool:
    return Task.ACTOR_GENERATION in group and bool(group & TRAINING_TASKS)


class _Search:
    """One search, and the best of it so far."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._ways: dict[TaskGroup, list[Way]] = {}
        self._best: Evaluation | None = None

    def best(self) -> Evaluation | None:
        work = self._evaluator.work
        for grouping in GROUPINGS:
            if frozenset().union(*grouping) == frozenset(work.tasks) and not (
                work.generation_apart and any(_is_busy_at_once(group) for group in grouping)
            ):
                ways = [self._of(group) for group in grouping]
                self._combine((), sorted(ways, key=len))
        return self._best

    def _of(self, group: TaskGroup) -> list[Way]:
        """Return the ways of a group that fit alone, the fastest first."""
        if group not in self._ways:
            found = [
                Way(
                    each,
                    each[0].gpus,
                    sum(seconds.values()),
                    seconds.get(Task.ACTOR_GENERATION, 0.0),
                )
                for each in _groups(group, self._evaluator)
                for seconds in [self._evaluator.alone_seconds(each)]
                if not isinstance(seconds, Misfit)
            ]
            self._ways[group] = sorted(found, key=lambda each: each.seconds)
        return self._ways[group]

    def _combine(self, chosen: tuple[Way, ...], left: Sequence[list[Way]]) -> None:
        if not left:
            found = self._evaluator.evaluate(Layout(tuple(each.group for each in chosen)))
            if isinstance(found, Evaluation) and found.step_seconds < self._most_seconds:
                self._best = found
            return
        taken = frozenset[int]().union(*(each.gpus for each in chosen))
        for way in left[0]:
            if self._least_seconds((*chosen, way)) * (1 - PRECISION) >= self._most_seconds:
                break
            if not way.gpus & taken:
                self._combine((*chosen, way), left[1:])

    @property
    def _most_seconds(self) -> float:
        return self._best.step_seconds if self._best else float("inf")

    def _least_seconds(self, chosen: Sequence[Way]) -> float:
        """Return a time that no step of these groups and others goes below."""
        longest = max(each.seconds for each in chosen)
        if not self._evaluator.work.is_synchronous:
            return longest
        generating = sum(each.generating_seconds for each in chosen)
        others = [each.seconds for each in chosen if not each.generating_seconds]
        return max(longest, generating + max(others, default=0.0))


def _groups(group: TaskGroup, evaluator: Evaluator) -> Iterator[Group]:
    """Yield the ways of a group: all of its tasks cut as what is trained, and as all may be."""
    work = evaluator.work
    cuts = Cuts(evaluator.devices, work.architecture.num_layers, work.architecture.num_query_heads)
    tasks = [task for task in work.tasks if task in group]
    trained = [task for task in (Task.ACTOR_TRAINING, Task.CRITIC_TRAINING) if task in group]
    served = {Task.ACTOR_GENERATION, *asked_of_workers(group)}
    asked = [*trained[:1], *(task for task in tasks if task in served)]
    for way in cuts.layouts(asked[0]):
        if all(_is_allowed(way, task, work) for task in asked):
            yield tuple(
                TaskLayout(task, way.replicas, way.mode if task in TRAINING_TASKS else None)
                for task in tasks
            )


def _is_allowed(way: TaskLayout, task: Task, work: Workload) -> bool:
    splits = (
        Parallelism(
            tensor=len(replica[0].gpus), stage_layers=tuple(each.num_layers for each in replica)
        )
        for replica in way.replicas
    )
    model = work.architecture
    return not any(split_obstacle(task, split, work.engine, model) for split in splits)
