"""Phase 2 of AReaL-Hex: the chosen training shape, laid on better links.

Phase 1 says how many stages and replicas; here the graph of their devices is partitioned again
into stages, so that pipelines and gradient rings take fast wires, as long as the cost model finds
a gain (arXiv 2511.00796; the method is ``partition``'s).
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cached_property

import numpy as np

from hetrl_core.task import Task
from hetrl_planner.cost.compute import BYTES_PER_WEIGHT
from hetrl_planner.cost.inference import hidden_bytes
from hetrl_planner.hetrl.genome.assigned_gpus import Room
from hetrl_planner.hetrl.genome.training_placement import TaskPlacer
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.fit.fitting import SplitFitter
from hetrl_planner.layout.layout import Layout, TaskLayout
from hetrl_planner.layout.objective import Objective
from hetrl_planner.partition.find import find_partition
from hetrl_planner.partition.graph import DeviceGraph, Labels
from hetrl_planner.partition.network import PipelineNetworkCost
from hetrl_planner.partition.shape import Partition, Shape
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.evolution import effort
from hetrl_planner.strategies.search_result import SearchResult

MAX_DEVICES = 128
"""Tensor-parallel groups up to which a graph is partitioned. Ours."""

PHASE_2_SHARE = 0.1
"""Share of evolution's evaluations for phase 2, which only moves phase 1's choice."""

Block = tuple[int, ...]


def on_better_links(context: SearchContext, found: SearchResult | None) -> SearchResult | None:
    """Return a result with its layout moved, unless time is up."""
    if found is None or context.should_stop():
        return found
    moved = repartition(
        found.evaluation,
        context.evaluator,
        context.objective,
        evaluations=int(PHASE_2_SHARE * effort(context, 1)),
        rng=np.random.default_rng(context.seed),
        should_stop=context.should_stop,
        runnable_only=context.space.runnable_only,
    )
    return replace(found, evaluation=moved, finalists=(moved, *found.finalists))


def repartition(
    found: Evaluation,
    evaluator: Evaluator,
    objective: Objective,
    *,
    evaluations: int,
    rng: np.random.Generator,
    should_stop: Callable[[], bool],
    runnable_only: bool = False,
) -> Evaluation:
    """Return the layout with actor training on better links, or unchanged if none pays.

    In runnable layouts the other tasks of the trainer's processes move along, and a critic on GPUs
    of its own likewise.
    """
    for task in _moved_tasks(found.layout, runnable_only=runnable_only):
        mover = _Mover(found.layout.task(task), evaluator)
        moved = mover.best(evaluations=evaluations, rng=rng, should_stop=should_stop)
        if moved is None:
            continue
        group = found.layout.groups[found.layout.group_of(task)]
        movers = {each.task for each in group} if runnable_only else {task}
        again = evaluator.evaluate(_with(found.layout, moved, movers))
        if isinstance(again, Evaluation) and objective.score(again) < objective.score(found):
            found = again
    return found


def _moved_tasks(layout: Layout, *, runnable_only: bool) -> tuple[Task, ...]:
    policy, critic = Task.ACTOR_TRAINING, Task.CRITIC_TRAINING
    has_critic = any(each.task is critic for each in layout.tasks)
    if runnable_only and has_critic and layout.group_of(policy) != layout.group_of(critic):
        return policy, critic
    return (policy,)


class _Mover:
    """Lays one training task on partitions of its own devices."""

    def __init__(self, task: TaskLayout, evaluator: Evaluator) -> None:
        self._task = task
        self._evaluator = evaluator
        self._laying = TaskPlacer(SplitFitter(evaluator.work, evaluator.devices))
        self._blocks: list[Block] = [stage.gpus for stage in task.stages]

    def best(
        self, *, evaluations: int, rng: np.random.Generator, should_stop: Callable[[], bool]
    ) -> TaskLayout | None:
        """Return the task on the best partition found; ``None`` if there is nothing to move."""
        num_stages, num_replicas = len(self._task.replicas[0]), len(self._task.replicas)
        if num_stages == 1 or num_stages * num_replicas > MAX_DEVICES or not evaluations:
            return None
        best = find_partition(
            self._graph,
            self._shape,
            self.seconds,
            rng,
            message_bytes=hidden_bytes(self._evaluator.work),
            max_evaluations=evaluations,
            should_stop=should_stop,
        )
        return self.task(best.partition)

    @cached_property
    def _graph(self) -> DeviceGraph:
        devices = self._evaluator.devices
        return DeviceGraph.of_machines(
            devices.snapshot,
            [devices.machine(devices.gpu_machines[block[0]]) for block in self._blocks],
            gpus_per_device=len(self._blocks[0]),
        )

    @cached_property
    def _shape(self) -> Shape:
        return Shape.even(num_parts=len(self._task.replicas[0]), part_size=len(self._task.replicas))

    @cached_property
    def _network(self) -> PipelineNetworkCost:
        work, num_stages = self._evaluator.work, len(self._task.replicas[0])
        return PipelineNetworkCost(
            self._graph,
            self._shape,
            gradient_bytes=BYTES_PER_WEIGHT * work.architecture.num_parameters / num_stages,
            activation_bytes=hidden_bytes(work),
        )

    def seconds(self, part_of: Labels, /) -> float:
        """Return the training time on a partition; infinite if it does not fit."""
        task = self.task(Partition(part_of=tuple(int(part) for part in part_of)))
        return self._evaluator.training_seconds(task) if task else float("inf")

    def task(self, partition: Partition) -> TaskLayout | None:
        """Return the task with these stages, in the order in which they are near each other."""
        stages = self._network.order(partition).stages
        forward, backward = self._laid(stages), self._laid(stages[::-1])
        both = [each for each in (forward, backward) if each]
        return min(both, key=self._evaluator.training_seconds, default=None)

    def _laid(self, stages: tuple[tuple[int, ...], ...]) -> TaskLayout | None:
        assert self._task.mode is not None
        blocks = [[self._blocks[device] for device in stage] for stage in stages]
        return self._laying.staged(self._task.task, blocks, self._task.mode, Room())


def _with(layout: Layout, moved: TaskLayout, tasks: Collection[Task]) -> Layout:
    return Layout(
        tuple(
            tuple(
                replace(each, replicas=moved.replicas) if each.task in tasks else each
                for each in group
            )
            for group in layout.groups
        )
    )
