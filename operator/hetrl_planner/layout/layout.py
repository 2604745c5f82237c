"""Layouts: the tasks of each GPU, the result of every search.

The rules of layouts, by which the oracle in the tests enumerates them:

- The tasks are divided into groups. A GPU belongs to at most one group; GPUs may stay idle.
- Inside its group, each task cuts its model into replicas of pipeline stages. A stage is a
  number of consecutive layers on the GPUs of one machine (tensor parallel). No GPU holds two
  stages of one task.
- The replicas of a training task are cut alike, for they sum their gradients layer by layer;
  one replica may span machines, kinds and regions.
- A replica of any other task stays on one site (one kind of GPU, one region), for an engine runs
  at the pace of its slowest GPU with the memory of its smallest. Each may be cut in its own way.
- A layout does not divide the batch among replicas: ``evaluate`` divides it best.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from hetrl_core.plan.plan import TrainingMode
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.layout.devices import Devices


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """Consecutive layers on GPUs of one machine, in tensor rank order."""

    gpus: tuple[int, ...]
    num_layers: int


ReplicaLayout = tuple[PipelineStage, ...]
"""Stages, first to last."""


@dataclass(frozen=True, slots=True)
class TaskLayout:
    """One task's replicas."""

    task: Task
    replicas: tuple[ReplicaLayout, ...]
    mode: TrainingMode | None = None
    """The training mode; ``None`` for tasks that do not train."""

    @property
    def stages(self) -> Iterator[PipelineStage]:
        """Every stage of every replica."""
        return (stage for replica in self.replicas for stage in replica)

    @property
    def gpus(self) -> frozenset[int]:
        """The GPUs that it runs on."""
        return frozenset(gpu for stage in self.stages for gpu in stage.gpus)


@dataclass(frozen=True, slots=True)
class Layout:
    """Task groups; the tasks of one share GPUs and take turns on them."""

    groups: tuple[tuple[TaskLayout, ...], ...]

    @property
    def tasks(self) -> Iterator[TaskLayout]:
        """Every task, group by group."""
        return (task for group in self.groups for task in group)

    @property
    def gpus(self) -> frozenset[int]:
        """The GPUs in use."""
        return frozenset(gpu for task in self.tasks for gpu in task.gpus)

    def task(self, task: Task) -> TaskLayout:
        """Return a task's replicas; ``KeyError`` if the layout lacks it."""
        for each in self.tasks:
            if each.task is task:
                return each
        raise KeyError(task)

    def group_of(self, task: Task) -> int:
        """Return the number of a task's group; ``KeyError`` if the layout lacks it."""
        for number, group in enumerate(self.groups):
            if any(each.task is task for each in group):
                return number
        raise KeyError(task)


def renumbered(layout: Layout, source: Devices, target: Devices) -> Layout:
    """Return a layout of some of a fleet's machines as one of the whole fleet."""
    firsts = dict(zip(target.machine_names, target.first_gpus, strict=False))

    def on_target(stage: PipelineStage) -> PipelineStage:
        machine = source.gpu_machines[stage.gpus[0]]
        offset = firsts[source.machine_names[machine]] - source.first_gpus[machine]
        return replace(stage, gpus=tuple(gpu + offset for gpu in stage.gpus))

    def moved(task: TaskLayout) -> TaskLayout:
        replicas = tuple(tuple(map(on_target, replica)) for replica in task.replicas)
        return replace(task, replicas=replicas)

    return Layout(tuple(tuple(map(moved, group)) for group in layout.groups))


def faults(layout: Layout, devices: Devices, *, num_layers: int) -> tuple[str, ...]:
    """Return every way in which a layout breaks the rules above; ``evaluate`` checks memory."""
    found = [fault for task in layout.tasks for fault in _task_faults(task, devices, num_layers)]
    owned = [frozenset[int]().union(*(task.gpus for task in group)) for group in layout.groups]
    found += [
        f"task groups {first} and {second} share GPUs"
        for first, second in combinations(range(len(owned)), 2)
        if owned[first] & owned[second]
    ]
    return tuple(found)


def _task_faults(task: TaskLayout, devices: Devices, num_layers: int) -> Iterator[str]:
    taken = [gpu for stage in task.stages for gpu in stage.gpus]
    if len(set(taken)) != len(taken):
        yield f"{task.task}: a GPU holds two stages"
    if not task.replicas:
        yield f"{task.task}: no replica"
    if any(len({devices.gpu_machines[gpu] for gpu in stage.gpus}) != 1 for stage in task.stages):
        yield f"{task.task}: a stage is not on one machine"
    if any(sum(stage.num_layers for stage in replica) != num_layers for replica in task.replicas):
        yield f"{task.task}: a replica has not all {num_layers} layers"
    yield from _replica_faults(task, devices)


def _replica_faults(task: TaskLayout, devices: Devices) -> Iterator[str]:
    if task.task not in TRAINING_TASKS and any(
        len({devices.machine_sites[devices.gpu_machines[stage.gpus[0]]] for stage in replica}) > 1
        for replica in task.replicas
    ):
        yield f"{task.task}: a replica spans several sites"
    if task.task in TRAINING_TASKS and len({_cut(replica) for replica in task.replicas}) > 1:
        yield f"{task.task}: replicas that train together are cut differently"


def _cut(replica: ReplicaLayout) -> tuple[tuple[int, int], ...]:
    return tuple((len(stage.gpus), stage.num_layers) for stage in replica)
