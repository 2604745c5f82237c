"""A choice of phase 1 as a layout: generation on one side, everything else on the other."""

from collections.abc import Sequence

from hetrl_core.plan.plan import ReplicaGroup
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.layout import Layout, PipelineStage, ReplicaLayout, TaskLayout
from hetrl_planner.phase1.choice import Choice
from hetrl_planner.phase1.placement import place


def layout_of(choice: Choice, devices: Devices) -> Layout:
    """Return a choice on concrete GPUs, assigned in order on each machine."""
    training, *rollouts = place(choice)
    counter = GpuCounter(devices)
    trained = counter.replicas([training])
    return Layout(
        (
            tuple(
                TaskLayout(task, trained, choice.training.mode if task in TRAINING_TASKS else None)
                for task in choice.work.training_side
            ),
            (TaskLayout(Task.ACTOR_GENERATION, counter.replicas(rollouts)),),
        )
    )


class GpuCounter:
    """An assignment of each machine's GPUs in order."""

    def __init__(self, devices: Devices) -> None:
        self._next = dict(zip(devices.machine_names, devices.first_gpus, strict=False))

    def replicas(self, groups: Sequence[ReplicaGroup]) -> tuple[ReplicaLayout, ...]:
        """Return the replicas of groups on the next free GPUs of their machines."""
        found = []
        for group in groups:
            tensor = group.parallelism.tensor
            for replica in group.replicas:
                gpus = [
                    gpu
                    for share in replica.shares
                    for gpu in self._take(share.machine, share.num_gpus)
                ]
                found.append(
                    tuple(
                        PipelineStage(tuple(gpus[number * tensor : (number + 1) * tensor]), layers)
                        for number, layers in enumerate(group.parallelism.stage_layers)
                    )
                )
        return tuple(found)

    def _take(self, machine: str, number: int) -> range:
        first = self._next[machine]
        self._next[machine] = first + number
        return range(first, first + number)
