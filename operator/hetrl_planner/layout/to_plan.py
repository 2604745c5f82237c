"""An evaluated layout as a plan: groups of equal replicas on machines by name.

A plan numbers GPUs only if tasks share them; otherwise a machine's GPUs are interchangeable, and
the plan stays small.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from hetrl_core.plan.plan import MemoryUse, Parallelism, Prediction, Replica, ReplicaGroup, Share
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import ReplicaLayout, TaskLayout
from hetrl_planner.layout.step import in_step_seconds
from hetrl_planner.problem.workload import Workload

Alike = tuple[tuple[tuple[int, int, int], ...], int]
"""Site, tensor size and layers of each stage, and the concurrency."""


def replica_groups(found: Evaluation, evaluator: Evaluator) -> tuple[ReplicaGroup, ...]:
    """Return the groups of a layout, the trainer's first, then a critic's of its own."""
    writer = _Writer(found, evaluator.devices, evaluator.memory(found))
    groups = [group for tasks in found.layout.groups for group in writer.groups(tasks)]
    return tuple(sorted(groups, key=_place))


def _place(group: ReplicaGroup) -> tuple[bool, bool]:
    return Task.ACTOR_TRAINING not in group.tasks, not TRAINING_TASKS.intersection(group.tasks)


def prediction(found: Evaluation, work: Workload) -> Prediction:
    """Return the prediction of a layout."""
    generation = found.tasks[Task.ACTOR_GENERATION].seconds
    return Prediction(
        step_seconds=found.step_seconds,
        generation_seconds=generation,
        training_seconds=_training_seconds(found, work),
        weight_sync_seconds=found.weight_sync_seconds,
        samples_per_second=work.batch_size / found.step_seconds,
        dollars_per_hour=found.dollars_per_hour,
        mean_staleness=found.mean_staleness,
        bottleneck=found.bottleneck,
    )


def _training_seconds(found: Evaluation, work: Workload) -> float:
    """Return how long a batch keeps the training groups busy, or a synchronous step waits for it.

    Meanwhile groups that score on GPUs of their own work on another batch.
    """
    if work.is_synchronous:
        return found.training_side_seconds
    return in_step_seconds(found.layout, found.tasks)


class _Writer:
    def __init__(
        self, found: Evaluation, devices: Devices, memory: Mapping[int, MemoryUse]
    ) -> None:
        self._found = found
        self._devices = devices
        self._memory = memory

    def groups(self, tasks: Sequence[TaskLayout]) -> Iterator[ReplicaGroup]:
        """Yield the replica groups of one task group, tasks that are cut alike together."""
        cut_alike: dict[tuple[ReplicaLayout, ...], list[TaskLayout]] = defaultdict(list)
        for task in tasks:
            cut_alike[task.replicas].append(task)
        numbered = len(cut_alike) > 1
        for together in cut_alike.values():
            # Training determines the group's split, generation its concurrency.
            first = min(together, key=lambda task: task.mode is None)
            names = tuple(task.task for task in together)
            places = max(
                (self._found.tasks[name].concurrency for name in names), default=(), key=len
            )
            yield from self._task_groups(first, names, places, numbered=numbered)

    def _task_groups(
        self,
        task: TaskLayout,
        names: tuple[Task, ...],
        concurrency: Sequence[int],
        *,
        numbered: bool,
    ) -> Iterator[ReplicaGroup]:
        cost = self._found.tasks[task.task]
        alike: dict[Alike, list[int]] = defaultdict(list)
        for number, replica in enumerate(task.replicas):
            places = concurrency[number] if concurrency else 0
            alike[self._shape(replica), places].append(number)
        for (shape, places), numbers in alike.items():
            shares = self._shares([task.replicas[number] for number in numbers], numbered=numbered)
            sites = [self._devices.sites[site] for site, *_ in shape]
            where = tuple((site.kind.name, site.region) for site in sites)
            yield ReplicaGroup(
                tasks=names,
                gpu_kind=where[0][0],
                region=where[0][1],
                stage_sites=where if len(set(where)) > 1 else (),
                parallelism=Parallelism(
                    tensor=shape[0][1], stage_layers=tuple(layers for *_, layers in shape)
                ),
                replicas=tuple(
                    Replica(shares=taken, work_share=cost.shares[number])
                    for number, taken in zip(numbers, shares, strict=True)
                ),
                training_mode=task.mode,
                concurrency=places,
                samples_per_second=sum(cost.rates[number] for number in numbers) / len(numbers),
                memory=self._fullest([task.replicas[number] for number in numbers]),
            )

    def _shape(self, replica: ReplicaLayout) -> tuple[tuple[int, int, int], ...]:
        devices = self._devices
        return tuple(
            (
                devices.machine_sites[devices.gpu_machines[stage.gpus[0]]],
                len(stage.gpus),
                stage.num_layers,
            )
            for stage in replica
        )

    def _shares(
        self, replicas: Sequence[ReplicaLayout], *, numbered: bool
    ) -> list[tuple[Share, ...]]:
        """Return the shares of equal replicas, all of one size.

        A share becomes a pod, and the pods of one set are alike: runs of consecutive GPUs where
        these are equally long, and else one share a stage.
        """
        runs = [list(self._runs(replica)) for replica in replicas]
        if len({len(run) for each in runs for run in each}) > 1:
            runs = [[list(stage.gpus) for stage in replica] for replica in replicas]
        return [tuple(self._share(run, numbered=numbered) for run in each) for each in runs]

    def _runs(self, replica: ReplicaLayout) -> Iterator[list[int]]:
        """Yield runs of consecutive GPUs of one machine, in rank order."""
        gpus = [gpu for stage in replica for gpu in stage.gpus]
        run = [gpus[0]]
        for gpu in [*gpus[1:], -1]:
            if gpu == run[-1] + 1 and self._machine(gpu) == self._machine(run[-1]):
                run.append(gpu)
                continue
            yield run
            run = [gpu]

    def _share(self, run: Sequence[int], *, numbered: bool) -> Share:
        machine = self._machine(run[0])
        return Share(
            machine=self._devices.machine_names[machine],
            num_gpus=len(run),
            first_gpu=run[0] - self._devices.first_gpus[machine] if numbered else None,
        )

    def _machine(self, gpu: int) -> int:
        return self._devices.gpu_machines[gpu]

    def _fullest(self, replicas: Sequence[ReplicaLayout]) -> MemoryUse:
        gpus = [gpu for replica in replicas for stage in replica for gpu in stage.gpus]
        return max((self._memory[gpu] for gpu in gpus), key=lambda use: use.total_bytes)
