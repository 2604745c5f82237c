"""Remembered costs of replicas: searches often meet the same replica on other machines.

Two replicas whose stages stand on the same sites, alike cut and alike joined, cost the same;
their machines do not matter here.
"""

from hetrl_core.plan.plan import Recompute
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.cost import compute, memory
from hetrl_planner.cost.generation import GenerationCost
from hetrl_planner.cost.inference import Pace, inference_pace
from hetrl_planner.cost.memory import Footprint
from hetrl_planner.cost.serving import Serving
from hetrl_planner.cost.shard import Shard
from hetrl_planner.cost.stage import PlacedStage
from hetrl_planner.cost.training import TrainingPipeline, Turn, pipeline_of, turn
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.layout import ReplicaLayout, TaskLayout
from hetrl_planner.problem.cached_method import cached_method
from hetrl_planner.problem.workload import Workload

StageKey = tuple[int, int, int, bool]
"""Site, tensor size, layers, and whether the next stage is on the same machine."""

ReplicaKey = tuple[StageKey, ...]

Spot = tuple[StageKey, bool, int]
"""A stage in its replica: whether it is the first, and the next one's site, ``NOWHERE`` for the
last. All that it costs depends on these, and most replicas have stages in common."""

NOWHERE = -1


class ReplicaCosts:
    """The cost model of single replicas."""

    def __init__(self, work: Workload, devices: Devices) -> None:
        self._work = work
        self._devices = devices
        self._footprints: dict[tuple[object, ...], Footprint] = {}

    def key(self, replica: ReplicaLayout) -> ReplicaKey:
        """Return the key that determines a replica's cost."""
        machine_of, site_of = self._devices.gpu_machines, self._devices.machine_sites
        machines = [machine_of[stage.gpus[0]] for stage in replica]
        following = [*machines[1:], NOWHERE]
        return tuple(
            [
                (site_of[here], len(stage.gpus), stage.num_layers, here == there)
                for stage, here, there in zip(replica, machines, following, strict=True)
            ]
        )

    @cached_method
    def stages(self, key: ReplicaKey) -> tuple[PlacedStage, ...]:
        """Return a replica's stages with their shards, kinds and wires."""
        return tuple(self._stage(spot) for spot in _spots(key))

    @cached_method
    def serving(self, key: ReplicaKey, max_concurrency: int) -> Serving:
        """Return how a replica generates with a cache for so many."""
        return Serving(cost=self._generation(key), max_concurrency=max_concurrency)

    @cached_method
    def _generation(self, key: ReplicaKey) -> GenerationCost:
        return GenerationCost(work=self._work, stages=self.stages(key))

    @cached_method
    def scoring(self, key: ReplicaKey) -> Pace:
        """Return how a replica scores."""
        return inference_pace(self._work, self.stages(key))

    @cached_method
    def training(self, key: ReplicaKey, recompute: Recompute) -> TrainingPipeline:
        """Return how a replica trains."""
        stages = [self._trained_stage(spot, recompute) for spot in _spots(key)]
        turns, updates = zip(*stages, strict=True)
        return pipeline_of(turns, updates)

    def footprint(self, task: TaskLayout, key: ReplicaKey, number: int) -> Footprint:
        """Return the bytes of a task on each GPU of a replica's stage; no cache is counted."""
        _, tensor, num_layers, _ = key[number]
        dp = len(task.replicas) if task.mode else 0
        ends = (number == 0, number == len(key) - 1)
        signature = (
            task.task in TRAINING_TASKS,
            task.task is Task.ACTOR_GENERATION,
            task.task is Task.REWARD_INFERENCE,
            tensor,
            num_layers,
            ends,
            len(key) - number,
            dp,
            task.mode,
        )
        known = self._footprints.get(signature)
        if known is None:
            known = self._footprint(task, self.stages(key)[number].shard, len(key) - number)
            self._footprints[signature] = known
        return known

    def _footprint(self, task: TaskLayout, shard: Shard, in_flight: int) -> Footprint:
        if task.task is Task.ACTOR_GENERATION:
            return memory.generation_footprint(shard, self._work, concurrency=0)
        if task.mode is None:
            return memory.inference_footprint(shard, self._work, task.task)
        return memory.training_footprint(
            shard,
            self._work,
            mode=task.mode,
            num_replicas=len(task.replicas),
            passes_in_flight=in_flight,
        )

    @cached_method
    def _trained_stage(self, spot: Spot, recompute: Recompute) -> tuple[Turn, float]:
        """Return a stage's turn, and the seconds of its optimizer's update."""
        stage = self._stage(spot)
        seconds = compute.optimizer_seconds(stage.shard, stage.kind)
        return turn(stage, self._work, recompute), seconds

    @cached_method
    def _stage(self, spot: Spot) -> PlacedStage:
        (site, tensor, num_layers, joined), is_first, there = spot
        kind = self._devices.sites[site].kind
        shard = self._shard(tensor, num_layers, is_first, there == NOWHERE)
        hop = self._devices.hop(site, there, joined) if there != NOWHERE else None
        return PlacedStage(shard=shard, kind=kind, hop=hop)

    @cached_method
    def _shard(self, tensor: int, num_layers: int, is_first: bool, is_last: bool) -> Shard:
        return Shard(
            architecture=self._work.architecture,
            tensor=tensor,
            num_layers=num_layers,
            is_first=is_first,
            is_last=is_last,
        )


def _spots(key: ReplicaKey) -> list[Spot]:
    following = [*[stage[0] for stage in key[1:]], NOWHERE]
    return [
        (stage, number == 0, there)
        for number, (stage, there) in enumerate(zip(key, following, strict=True))
    ]
