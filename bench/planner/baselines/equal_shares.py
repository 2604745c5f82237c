"""The same cost model for frameworks that do not divide work by speed.

Every data-parallel rank gets equally many sequences, so all wait for the slowest: verl's
dispatcher splits a batch in equal chunks, and its ``balance_batch`` evens tokens, not seconds
(verl ``single_controller``). A synchronous rollout batch is dealt out equally as well; an
asynchronous one is pulled from a queue, in verl's fully asynchronous mode too.

FSDP divides a scoring model over all ranks as it does the trained one. ``HetRL`` has no such
layout, so it is priced here: an actor that trains with everything divided and scores whole
models on single GPUs is verl's FSDP worker, whose weights are gathered for each pass.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil

from hetrl_core.plan.plan import Sharding
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.cost.memory import Footprint, pass_tokens
from hetrl_planner.cost.network import AT_ONCE, WeightSync, all_gather_seconds
from hetrl_planner.cost.serving import Serving
from hetrl_planner.cost.training import Ring, training_time
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation, Misfit, TaskCost
from hetrl_planner.layout.layout import Layout, TaskLayout
from hetrl_planner.layout.replicas import ReplicaKey
from hetrl_planner.layout.task_costs import GroupFootprints
from hetrl_planner.problem.cached_method import cached_method
from hetrl_planner.problem.workload import Workload


class EqualShares(Evaluator):
    """Prices layouts whose replicas all get equally much."""

    def __init__(self, work: Workload, devices: Devices) -> None:
        super().__init__(work, devices)
        self._shards_scoring = False
        self._gathered: dict[TaskLayout, TaskCost] = {}
        # Tasks and modes that share replicas are priced one after the other.
        self._last_keys: tuple[object, tuple[ReplicaKey, ...]] = (None, ())
        self._last_rings: tuple[object, tuple[Ring, ...]] = (None, ())

    def evaluate(self, layout: Layout) -> Evaluation | Misfit:
        """Return what a layout costs, or which GPU is too small for it."""
        self._shards_scoring = _shards_scoring(layout.tasks)
        return super().evaluate(layout)

    # One side of a step alone, for searches over pairs of sides.

    def side_seconds(self, tasks: Sequence[TaskLayout]) -> float:
        """Return how long tasks other than generation take that take turns on their GPUs."""
        self._shards_scoring = _shards_scoring(tasks)
        return sum(
            (self._train(task, keys) if task.mode else self._scored_by(task, keys)).seconds
            for task in tasks
            for keys in [self._keys(task)]
        )

    def fits(self, tasks: Sequence[TaskLayout]) -> bool:
        """Tell whether tasks that take turns fit on their GPUs."""
        self._shards_scoring = _shards_scoring(tasks)
        return self._misfit(self._footprints(tasks)) is None

    def generation_seconds(self, task: TaskLayout) -> float | None:
        """Return generation's time before it waits for weights, ``None`` if it does not fit."""
        footprints = self._footprints([task])
        if self._misfit(footprints):
            return None
        layout, keys = Layout(((task,),)), self._keys(task)
        servings = self._servings(task, keys, dict.fromkeys(task.gpus, 0.0))
        if isinstance(servings, Misfit):
            return None
        return self._generate(layout, {}, servings, (AT_ONCE,) * len(servings))[0].seconds

    def _footprints(self, tasks: Iterable[TaskLayout]) -> GroupFootprints:
        footprints: GroupFootprints = defaultdict(list)
        for task in tasks:
            self._add_footprints(task, self._keys(task), footprints)
        return footprints

    def _keys(self, task: TaskLayout) -> tuple[ReplicaKey, ...]:
        if self._last_keys[0] is not task.replicas:
            self._last_keys = (task.replicas, super()._keys(task))
        return self._last_keys[1]

    def _rings(self, task: TaskLayout) -> tuple[Ring, ...]:
        if self._last_rings[0] is not task.replicas:
            self._last_rings = (task.replicas, super()._rings(task))
        return self._last_rings[1]

    # Equal shares

    def _compute_training(
        self, task: TaskLayout, keys: tuple[ReplicaKey, ...], rings: tuple[Ring, ...]
    ) -> TaskCost:
        assert task.mode is not None
        per_minibatch = ceil(self.work.batch_size / self.work.minibatches)
        sequences = ceil(per_minibatch / len(keys))
        replicas = [self._replicas.training(key, task.mode.recompute) for key in keys]
        time = training_time(
            self.work, [(each, sequences) for each in replicas], rings, mode=task.mode
        )
        cost = _equal_cost(time.total_seconds, len(keys), self.work.batch_size, time.binding)
        return replace(cost, proximal_seconds=time.proximal_seconds)

    @cached_method
    def _score(self, keys: tuple[ReplicaKey, ...]) -> TaskCost:
        sequences = ceil(self.work.batch_size / len(keys))
        seconds = max(self._replicas.scoring(key).seconds(sequences) for key in set(keys))
        return _equal_cost(seconds, len(keys), self.work.batch_size, "compute")

    def _generate(
        self,
        layout: Layout,
        costs: Mapping[Task, TaskCost],
        servings: Sequence[Serving],
        syncs: Sequence[WeightSync],
    ) -> tuple[TaskCost, float]:
        if not self.work.is_synchronous:
            return super()._generate(layout, costs, servings, syncs)
        each = self.work.batch_size / len(servings)
        places = [min(float(serving.max_concurrency), max(1.0, each)) for serving in servings]
        rates = [
            serving.samples_per_second(running)
            for serving, running in zip(servings, places, strict=True)
        ]
        seconds = max(
            sync.total_seconds + each / rate for rate, sync in zip(rates, syncs, strict=True)
        )
        cost = _equal_cost(seconds, len(servings), self.work.batch_size, "HBM bandwidth")
        return (
            replace(
                cost,
                rates=tuple(rates),
                concurrency=tuple(ceil(running) for running in places),
            ),
            sum(places),
        )

    # FSDP's scoring

    def _add_footprints(
        self, task: TaskLayout, keys: Sequence[ReplicaKey], footprints: GroupFootprints
    ) -> None:
        if not self._is_sharded_scoring(task):
            super()._add_footprints(task, keys, footprints)
            return
        whole = self._replicas.footprint(task, keys[0], 0)
        layers = self.work.architecture.num_layers
        sharded = Footprint(
            weights_bytes=whole.weights_bytes / len(keys),
            activations_bytes=whole.activations_bytes + 2 * whole.weights_bytes / layers,
        )
        for gpu in task.gpus:
            footprints[gpu].append(sharded)

    def _together(
        self, layout: Layout, costs: dict[Task, TaskCost], servings: Sequence[Serving]
    ) -> Evaluation:
        scored = {
            task.task: self._scored_by(task, self._keys(task))
            for task in layout.tasks
            if self._is_sharded_scoring(task)
        }
        return super()._together(layout, {**costs, **scored}, servings)

    def _scored_by(self, task: TaskLayout, keys: tuple[ReplicaKey, ...]) -> TaskCost:
        cost = self._score(keys)
        if not self._is_sharded_scoring(task):
            return cost
        known = self._gathered.get(task)
        if known is None:
            seconds = cost.seconds + self._gather_seconds(task)
            known = _equal_cost(seconds, len(keys), self.work.batch_size, "weight all-gather")
            self._gathered[task] = known
        return known

    def _gather_seconds(self, task: TaskLayout) -> float:
        (ring,) = self._rings(task)
        sequences = ceil(self.work.batch_size / len(task.replicas))
        passes = ceil(sequences * self.work.sample_tokens / pass_tokens(self.work))
        return passes * all_gather_seconds(
            ring.wire_bytes, members=ring.members, channel=ring.channel
        )

    def _is_sharded_scoring(self, task: TaskLayout) -> bool:
        return (
            self._shards_scoring
            and task.mode is None
            and task.task is not Task.ACTOR_GENERATION
            and len(task.replicas) > 1
            and all(len(stage.gpus) == 1 for stage in task.stages)
        )


def _shards_scoring(tasks: Iterable[TaskLayout]) -> bool:
    return any(
        task.task in TRAINING_TASKS
        and task.mode is not None
        and task.mode.sharding is Sharding.FULL
        and all(len(replica) == 1 and len(replica[0].gpus) == 1 for replica in task.replicas)
        for task in tasks
    )


def _equal_cost(seconds: float, replicas: int, batch_size: int, binding: str) -> TaskCost:
    return TaskCost(
        seconds=seconds,
        shares=(1 / replicas,) * replicas,
        rates=(batch_size / replicas / seconds,) * replicas,
        binding=binding,
    )
