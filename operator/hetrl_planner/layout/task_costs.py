"""The cost model of single tasks of a layout: their times alone, and the memory that they keep.

``replicas`` remembers costs of replicas, this module those of tasks; ``evaluate`` combines them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hetrl_core.task import Task
from hetrl_planner.cost import memory
from hetrl_planner.cost.compute import BYTES_PER_WEIGHT
from hetrl_planner.cost.memory import Footprint
from hetrl_planner.cost.network import AT_ONCE, Channel, WeightSync
from hetrl_planner.cost.rollouts import OtherStepParts, Rollouts, generated
from hetrl_planner.cost.serving import Serving
from hetrl_planner.cost.shares import balanced
from hetrl_planner.cost.training import Ring, TrainingTime, training_time
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluation import Misfit, TaskCost
from hetrl_planner.layout.layout import TaskLayout
from hetrl_planner.layout.replicas import ReplicaCosts, ReplicaKey
from hetrl_planner.problem.cached_method import cached_method
from hetrl_planner.problem.workload import Workload

GroupFootprints = dict[int, list[Footprint]]

Machines = tuple[tuple[int, ...], ...]
"""By stage, those on which the replicas of a training task hold it, each once."""


class TaskCosts:
    """Costs of single tasks of one job on one fleet."""

    def __init__(self, work: Workload, devices: Devices) -> None:
        self.work = work
        self.devices = devices
        self._replicas = ReplicaCosts(work, devices)
        self._trained: dict[tuple[object, ...], TaskCost] = {}
        self._generated: dict[tuple[tuple[int, WeightSync], ...], float] = {}

    def training_seconds(self, task: TaskLayout) -> float:
        """Return how long a training task takes, whether or not it fits."""
        return self._train(task, self._keys(task)).seconds

    def proximal_seconds(self, task: TaskLayout) -> float:
        """Return the part of a training task's time before its first gradient."""
        return self._train(task, self._keys(task)).proximal_seconds

    def scoring_seconds(self, task: TaskLayout) -> float:
        """Return how long a scoring task takes, whether or not it fits."""
        return self._score(self._keys(task)).seconds

    def generating_seconds(
        self,
        task: TaskLayout,
        kept_bytes: Mapping[int, float],
        weights: Sequence[WeightSync] | None = None,
    ) -> float | None:
        """Return the time of generation beside the memory of other tasks on its GPUs.

        ``weights`` are the waits of each replica; by default weights are there at once. ``None``
        if no cache fits.
        """
        servings = self._servings(task, self._keys(task), kept_bytes)
        if isinstance(servings, Misfit):
            return None
        syncs = weights or [AT_ONCE] * len(servings)
        # Packing repeats this with other tasks beside it and the same cache left.
        key = tuple((id(each), sync) for each, sync in zip(servings, syncs, strict=True))
        if key not in self._generated:
            rollouts = [
                Rollouts(serving=each, num_replicas=1, weights=sync)
                for each, sync in zip(servings, syncs, strict=True)
            ]
            self._generated[key] = generated(rollouts, self.work, OtherStepParts()).seconds
        return self._generated[key]

    def footprints(self, task: TaskLayout) -> dict[int, Footprint]:
        """Return the memory that a task needs on each of its GPUs, keys and values aside."""
        found: GroupFootprints = defaultdict(list)
        self._add_footprints(task, self._keys(task), found)
        return {gpu: footprint for gpu, (footprint,) in found.items()}

    def _keys(self, task: TaskLayout) -> tuple[ReplicaKey, ...]:
        return tuple([self._replicas.key(replica) for replica in task.replicas])

    def _add_footprints(
        self, task: TaskLayout, keys: Sequence[ReplicaKey], footprints: GroupFootprints
    ) -> None:
        by_stage = {
            key: [self._replicas.footprint(task, key, number) for number in range(len(key))]
            for key in set(keys)
        }
        for replica, key in zip(task.replicas, keys, strict=True):
            for stage, footprint in zip(replica, by_stage[key], strict=True):
                for gpu in stage.gpus:
                    footprints[gpu].append(footprint)

    def _servings(
        self, task: TaskLayout, keys: Sequence[ReplicaKey], kept_bytes: Mapping[int, float]
    ) -> list[Serving] | Misfit:
        """Return each generating replica with the cache that others leave it."""
        found = []
        for replica, key in zip(task.replicas, keys, strict=True):
            held = min(
                memory.max_concurrency(
                    placed.shard,
                    placed.kind,
                    self.work,
                    beside_bytes=max(kept_bytes[gpu] for gpu in stage.gpus),
                )
                for stage, placed in zip(replica, self._replicas.stages(key), strict=True)
            )
            if held < 1:
                return Misfit("no GPU memory is left for keys and values", 1.05)
            found.append(self._replicas.serving(key, held))
        if len(found) > self.work.most_running:
            return Misfit("more replicas than trajectories that can run at once", 1.01)
        return found

    def _train(self, task: TaskLayout, keys: tuple[ReplicaKey, ...]) -> TaskCost:
        key = (task.task, keys, self._machines(task), task.mode)
        known = self._trained.get(key)
        if known is None:
            known = self._compute_training(task, keys, self._rings(task))
            if task.task is Task.CRITIC_TRAINING:
                known = _without_proximal(known)
            self._trained[key] = known
        return known

    def _compute_training(
        self, task: TaskLayout, keys: tuple[ReplicaKey, ...], rings: tuple[Ring, ...]
    ) -> TaskCost:
        assert task.mode is not None
        pipelines = {key: self._replicas.training(key, task.mode.recompute) for key in set(keys)}
        paces = {key: each.pace for key, each in pipelines.items()}
        per_minibatch = -(-self.work.batch_size // self.work.minibatches)
        sequences = balanced([paces[key] for key in keys], sequences=per_minibatch)
        # Equal replicas only once, but in order: the first of equally slow ones counts as slowest.
        alike = dict.fromkeys(zip(keys, sequences, strict=True))
        time: TrainingTime = training_time(
            self.work, [(pipelines[key], count) for key, count in alike], rings, mode=task.mode
        )
        shares = tuple([count / per_minibatch for count in sequences])
        return TaskCost(
            seconds=time.total_seconds,
            shares=shares,
            rates=tuple([self.work.batch_size * share / time.total_seconds for share in shares]),
            binding=time.binding,
            proximal_seconds=time.proximal_seconds,
        )

    def _machines(self, task: TaskLayout) -> Machines:
        machine_of = self.devices.gpu_machines
        return tuple(
            [
                tuple(sorted({machine_of[stage.gpus[0]] for stage in stages}))
                for stages in zip(*task.replicas, strict=True)
            ]
        )

    def _rings(self, task: TaskLayout) -> tuple[Ring, ...]:
        """Return one ring for each stage; those that leave a machine share its network."""
        stages = self._replicas.stages(self._replicas.key(task.replicas[0]))
        shards, machines = [stage.shard for stage in stages], self._machines(task)
        sizes = [BYTES_PER_WEIGHT * shard.num_parameters for shard in shards]
        leaving: dict[int, float] = defaultdict(float)
        for size, shard, members in zip(sizes, shards, machines, strict=True):
            if len(members) > 1:
                for machine in members:
                    leaving[machine] += size * shard.tensor
        return tuple(
            [
                Ring(
                    members=len(task.replicas),
                    channel=self._channel(members),
                    wire_bytes=size
                    if len(members) == 1
                    else max([leaving[machine] for machine in members]),
                )
                for size, members in zip(sizes, machines, strict=True)
            ]
        )

    @cached_method
    def _channel(self, machines: tuple[int, ...]) -> Channel:
        return self.devices.ring(machines)

    @cached_method
    def _score(self, keys: tuple[ReplicaKey, ...]) -> TaskCost:
        paces = [self._replicas.scoring(key) for key in keys]
        counts = balanced(paces, sequences=self.work.batch_size)
        seconds = max(pace.seconds(n) for pace, n in zip(paces, counts, strict=True))
        return TaskCost(
            seconds=seconds,
            shares=tuple(n / self.work.batch_size for n in counts),
            rates=tuple(n / seconds for n in counts),
            binding="compute",
        )


def _without_proximal(policy: TaskCost) -> TaskCost:
    """Return a critic's cost from a policy's: only a policy has proximal passes."""
    seconds = policy.seconds - policy.proximal_seconds
    faster = policy.seconds / seconds
    return replace(
        policy,
        seconds=seconds,
        rates=tuple(faster * rate for rate in policy.rates),
        proximal_seconds=0.0,
    )
