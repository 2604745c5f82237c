"""The best layout with nothing left out and nothing bounded: the oracle's own check.

Every grouping, every owner of every GPU, every product of the tasks' ways, each priced whole.
Only for two or three GPUs.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from hetrl_core.task import Task
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import Layout
from tests.planner.oracle.cuts import Cuts


def best_of_all(evaluator: Evaluator) -> Evaluation | None:
    """Return the fastest layout of all, ``None`` if none fits."""
    found = [evaluator.evaluate(layout) for layout in all_layouts(evaluator)]
    fitting = [each for each in found if isinstance(each, Evaluation)]
    return min(fitting, key=lambda each: each.step_seconds, default=None)


def all_layouts(evaluator: Evaluator) -> Iterator[Layout]:
    """Yield every layout of the evaluator's job on its devices."""
    model, devices = evaluator.work.architecture, evaluator.devices
    cuts = Cuts(devices, model.num_layers, model.num_query_heads)
    ways = {task: list(cuts.layouts(task)) for task in evaluator.work.tasks}
    for groups in partitions(evaluator.work.tasks):
        for owners in product(range(len(groups) + 1), repeat=devices.num_gpus):
            owned = [
                {gpu for gpu, owner in enumerate(owners) if owner == number}
                for number in range(len(groups))
            ]
            inside = [
                [[way for way in ways[task] if way.gpus <= owned[number]] for task in group]
                for number, group in enumerate(groups)
            ]
            for chosen in product(*(product(*group) for group in inside)):
                # Which GPUs a group owns and leaves idle makes no other layout.
                if all(
                    set().union(*(way.gpus for way in group)) == mine
                    for group, mine in zip(chosen, owned, strict=True)
                ):
                    yield Layout(chosen)


def partitions(tasks: Sequence[Task]) -> Iterator[tuple[tuple[Task, ...], ...]]:
    """Yield every way to divide tasks into groups."""
    if not tasks:
        yield ()
        return
    first, *others = tasks
    for groups in partitions(others):
        yield ((first,), *groups)
        for number, group in enumerate(groups):
            yield (*groups[:number], (first, *group), *groups[number + 1 :])
