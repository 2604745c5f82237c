"""Conversion of a layout to a genome, so that evolution can start from another search's result."""

from collections import Counter
from collections.abc import Sequence

from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.hetrl.genome.genome import Cut, Genome
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.layout import Layout, TaskLayout


def genome_of(layout: Layout, devices: Devices, *, tasks: tuple[Task, ...]) -> Genome:
    """Return the genome that decodes to approximately this layout.

    Splits that differ within a site, and places that no order of machines gives, are lost.
    """
    groups = sorted(layout.groups, key=lambda group: min(tasks.index(each.task) for each in group))
    return Genome(
        grouping=tuple(
            tuple(task for task in tasks if any(each.task is task for each in group))
            for group in groups
        ),
        counts=_counts(groups, devices),
        order=_order(layout, devices),
        cuts=tuple((each.task, _cut(each)) for each in layout.tasks if each.task in TRAINING_TASKS),
        splits=tuple(
            (each.task, site, split)
            for each in layout.tasks
            if each.task not in TRAINING_TASKS
            for site, split in _splits(each, devices).items()
        ),
    )


def _counts(
    groups: Sequence[tuple[TaskLayout, ...]], devices: Devices
) -> tuple[tuple[int, ...], ...]:
    """Return how many GPUs of each machine each group owns."""
    counts = [[0] * len(groups) for _ in devices.machine_sizes]
    for number, group in enumerate(groups):
        for gpu in frozenset[int]().union(*(each.gpus for each in group)):
            counts[devices.gpu_machines[gpu]][number] += 1
    return tuple(tuple(row) for row in counts)


def _order(layout: Layout, devices: Devices) -> tuple[int, ...]:
    """Return the machines in the order of training's stages."""
    trained = (each for each in layout.tasks if each.task in TRAINING_TASKS)
    stages = (stage for each in sorted(trained, key=_is_critic) for stage in each.stages)
    met = dict.fromkeys(devices.gpu_machines[stage.gpus[0]] for stage in stages)
    return (*met, *(machine for machine in range(devices.num_machines) if machine not in met))


def _is_critic(task: TaskLayout) -> bool:
    return task.task is not Task.ACTOR_TRAINING


def _cut(task: TaskLayout) -> Cut:
    assert task.mode is not None
    first = task.replicas[0]
    return Cut(len(first[0].gpus), len(first), task.mode, is_striped=False)


def _splits(task: TaskLayout, devices: Devices) -> dict[int, tuple[int, int]]:
    """Return the commonest split of each site."""
    found: dict[int, Counter[tuple[int, int]]] = {}
    for replica in task.replicas:
        site = devices.machine_sites[devices.gpu_machines[replica[0].gpus[0]]]
        found.setdefault(site, Counter())[len(replica[0].gpus), len(replica)] += 1
    return {site: splits.most_common(1)[0][0] for site, splits in found.items()}
