"""The cost model over single tasks of a layout: what each takes alone, and what it keeps.

Replica costs are remembered in ``replicas``, tasks' here; who waits for whom is ``evaluate``'s.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from hetrl_planner.cost import memory
from hetrl_planner.cost.compute import BYTES_PER_WEIGHT
from hetrl_planner.cost.memory import Footprint
from hetrl_planner.cost.network import AT_ONCE, WeightSync
from hetrl_planner.cost.rollouts import Beside, Rollouts, generated
from hetrl_planner.cost.serving import Serving
from hetrl_planner.cost.shares import balanced
from hetrl_planner.cost.training import Ring, TrainingTime, training_time
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluation import Misfit, TaskCost
from hetrl_planner.layout.layout import TaskLayout
from hetrl_planner.layout.replicas import ReplicaCosts, ReplicaKey
from hetrl_planner.workload import Workload

GroupFootprints = dict[int, list[Footprint]]


class TaskCosts:
    """Prices tasks of one job on one fleet, each for itself."""

    def __init__(self, work: Workload, devices: Devices) -> None:
        self.work = work
        self.devices = devices
        self._replicas = ReplicaCosts(work, devices)
        self._trained: dict[tuple[object, ...], TaskCost] = {}
        self._scored: dict[tuple[ReplicaKey, ...], TaskCost] = {}

    def training_seconds(self, task: TaskLayout) -> float:
        """Return how long a training task takes, whether or not it fits."""
        return self._train(task, self._keys(task)).seconds

    def scoring_seconds(self, task: TaskLayout) -> float:
        """Return how long a scoring task takes, whether or not it fits."""
        return self._score(self._keys(task)).seconds

    def generating_seconds(
        self,
        task: TaskLayout,
        kept_bytes: Mapping[int, float],
        weights: Sequence[WeightSync] | None = None,
    ) -> float | None:
        """Return how long generation takes beside what others keep on its GPUs.

        ``weights`` are what each replica waits for; without them they are there at once. ``None``
        where no cache fits.
        """
        servings = self._servings(task, self._keys(task), kept_bytes)
        if isinstance(servings, Misfit):
            return None
        rollouts = [
            Rollouts(serving=each, num_replicas=1, weights=sync)
            for each, sync in zip(servings, weights or [AT_ONCE] * len(servings), strict=True)
        ]
        return generated(rollouts, self.work, Beside()).seconds

    def footprints(self, task: TaskLayout) -> dict[int, Footprint]:
        """Return what a task needs on each of its GPUs, keys and values aside."""
        return {
            gpu: self._replicas.footprint(task, key, number)
            for replica, key in zip(task.replicas, self._keys(task), strict=True)
            for number, stage in enumerate(replica)
            for gpu in stage.gpus
        }

    def _keys(self, task: TaskLayout) -> tuple[ReplicaKey, ...]:
        return tuple(self._replicas.key(replica) for replica in task.replicas)

    def _add_footprints(
        self, task: TaskLayout, keys: Sequence[ReplicaKey], footprints: GroupFootprints
    ) -> None:
        for replica, key in zip(task.replicas, keys, strict=True):
            for number, stage in enumerate(replica):
                footprint = self._replicas.footprint(task, key, number)
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
                    placed.shard, placed.kind, self.work,
                    beside_bytes=max(kept_bytes[gpu] for gpu in stage.gpus),
                )
                for stage, placed in zip(replica, self._replicas.stages(key), strict=True)
            )  # fmt: skip
            if held < 1:
                return Misfit("no GPU memory is left for keys and values", 1.05)
            found.append(self._replicas.serving(key, max_concurrency=held))
        if len(found) > self.work.most_running:
            return Misfit("more replicas than trajectories that can run at once", 1.01)
        return found

    def _train(self, task: TaskLayout, keys: tuple[ReplicaKey, ...]) -> TaskCost:
        assert task.mode is not None
        rings = self._rings(task)
        known = self._trained.get((keys, rings, task.mode))
        if known is None:
            known = self._trained[keys, rings, task.mode] = self._trained_anew(task, keys, rings)
        return known

    def _trained_anew(
        self, task: TaskLayout, keys: tuple[ReplicaKey, ...], rings: tuple[Ring, ...]
    ) -> TaskCost:
        assert task.mode is not None
        replicas = [self._replicas.training(key, task.mode.recompute) for key in keys]
        per_minibatch = -(-self.work.batch_size // self.work.minibatches)
        sequences = balanced([each.pace for each in replicas], sequences=per_minibatch)
        time: TrainingTime = training_time(
            self.work, list(zip(replicas, sequences, strict=True)), rings, mode=task.mode
        )
        shares = tuple(count / per_minibatch for count in sequences)
        return TaskCost(
            seconds=time.total_seconds,
            shares=shares,
            rates=tuple(self.work.batch_size * share / time.total_seconds for share in shares),
            binding=time.binding,
        )

    def _rings(self, task: TaskLayout) -> tuple[Ring, ...]:
        """Return one ring a stage; those that leave a machine share its way out."""
        machine_of = self.devices.gpu_machines
        stages = self._replicas.stages(self._replicas.key(task.replicas[0]))
        machines = [
            [machine_of[replica[number].gpus[0]] for replica in task.replicas]
            for number in range(len(stages))
        ]
        sizes = [BYTES_PER_WEIGHT * stage.shard.num_parameters for stage in stages]
        leaving: dict[int, float] = defaultdict(float)
        for size, stage, members in zip(sizes, stages, machines, strict=True):
            if len(set(members)) > 1:
                for machine in set(members):
                    leaving[machine] += size * stage.shard.tensor
        return tuple(
            Ring(
                members=len(members),
                channel=self.devices.ring(members),
                wire_bytes=size
                if len(set(members)) == 1
                else max(leaving[machine] for machine in members),
            )
            for size, members in zip(sizes, machines, strict=True)
        )

    def _score(self, keys: tuple[ReplicaKey, ...]) -> TaskCost:
        known = self._scored.get(keys)
        if known is None:
            paces = [self._replicas.scoring(key) for key in keys]
            counts = balanced(paces, sequences=self.work.batch_size)
            seconds = max(pace.seconds(n) for pace, n in zip(paces, counts, strict=True))
            shares = tuple(n / self.work.batch_size for n in counts)
            known = self._scored[keys] = TaskCost(
                seconds=seconds,
                shares=shares,
                rates=tuple(n / seconds for n in counts),
                binding="compute",
            )
        return known
