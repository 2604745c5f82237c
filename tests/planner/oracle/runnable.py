"""The best layout that this release runs, each of them priced whole.

From the lists that planner and runtime go by: every grouping, every split that is not refused, what
the same processes do cut alike. Only for two or three GPUs.
"""

from collections.abc import Iterator
from itertools import product

from hetrl_core.capabilities import split_obstacle
from hetrl_core.groupings import GROUPINGS, TaskGroup
from hetrl_core.plan import Parallelism
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import Layout, TaskLayout
from hetrl_planner.workload import Workload
from tests.planner.oracle.cuts import Cuts

Group = tuple[TaskLayout, ...]


def best_that_runs(evaluator: Evaluator) -> Evaluation | None:
    """Return the fastest layout that runs, ``None`` where none fits."""
    found = [evaluator.evaluate(layout) for layout in layouts_that_run(evaluator)]
    fitting = [each for each in found if isinstance(each, Evaluation)]
    return min(fitting, key=lambda each: each.step_seconds, default=None)


def layouts_that_run(evaluator: Evaluator) -> Iterator[Layout]:
    """Yield every layout of the evaluator's job on its devices that this release runs."""
    tasks = frozenset(evaluator.work.tasks)
    for grouping in GROUPINGS:
        if frozenset().union(*grouping) != tasks:
            continue
        ways = [list(_groups(group, evaluator)) for group in grouping]
        for chosen in product(*ways):
            taken = [group[0].gpus for group in chosen]
            if len(frozenset().union(*taken)) == sum(map(len, taken)):
                yield Layout(chosen)


def _groups(group: TaskGroup, evaluator: Evaluator) -> Iterator[Group]:
    """Yield the ways of a group: all of its tasks cut as a trainer's actor, or as all may be."""
    work = evaluator.work
    cuts = Cuts(evaluator.devices, work.architecture.num_layers, work.architecture.num_query_heads)
    tasks = [task for task in work.tasks if task in group]
    asked = [Task.ACTOR_TRAINING] if Task.ACTOR_TRAINING in group else tasks
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
