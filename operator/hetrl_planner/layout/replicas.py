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
        self._stages: dict[ReplicaKey, tuple[PlacedStage, ...]] = {}
        self._placed: dict[Spot, PlacedStage] = {}
        self._shards: dict[tuple[int, int, bool, bool], Shard] = {}
        # Not by pairs with a way to recompute: so many would burden the garbage collector.
        self._trained: dict[Recompute, dict[Spot, tuple[Turn, float]]] = {}
        self._generations: dict[ReplicaKey, GenerationCost] = {}
        self._servings: dict[tuple[ReplicaKey, int], Serving] = {}
        self._paces: dict[ReplicaKey, Pace] = {}
        self._pipelines: dict[Recompute, dict[ReplicaKey, TrainingPipeline]] = {}
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

    def stages(self, key: ReplicaKey) -> tuple[PlacedStage, ...]:
        """Return a replica's stages with their shards, kinds and wires."""
        if key not in self._stages:
            self._stages[key] = tuple(self._stage(spot) for spot in _spots(key))
        return self._stages[key]

    def serving(self, key: ReplicaKey, *, max_concurrency: int) -> Serving:
        """Return how a replica generates with a cache for so many."""
        known = self._servings.get((key, max_concurrency))
        if known is None:
            if key not in self._generations:
                self._generations[key] = GenerationCost(work=self._work, stages=self.stages(key))
            known = Serving(cost=self._generations[key], max_concurrency=max_concurrency)
            self._servings[key, max_concurrency] = known
        return known

    def scoring(self, key: ReplicaKey) -> Pace:
        """Return how a replica scores."""
        if key not in self._paces:
            self._paces[key] = inference_pace(self._work, self.stages(key))
        return self._paces[key]

    def training(self, key: ReplicaKey, recompute: Recompute) -> TrainingPipeline:
        """Return how a replica trains."""
        known = self._pipelines.setdefault(recompute, {})
        if key not in known:
            turns, updates = zip(
                *[self._trained_stage(spot, recompute) for spot in _spots(key)], strict=True
            )
            known[key] = pipeline_of(turns, updates)
        return known[key]

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

    def _trained_stage(self, spot: Spot, recompute: Recompute) -> tuple[Turn, float]:
        """Return a stage's turn, and the seconds of its optimizer's update."""
        known = self._trained.setdefault(recompute, {})
        if spot not in known:
            stage = self._stage(spot)
            known[spot] = (
                turn(stage, self._work, recompute),
                compute.optimizer_seconds(stage.shard, stage.kind),
            )
        return known[spot]

    def _stage(self, spot: Spot) -> PlacedStage:
        if spot not in self._placed:
            (site, tensor, num_layers, joined), is_first, there = spot
            sites = self._devices.sites
            shard = self._shard(tensor, num_layers, is_first, there == NOWHERE)
            hop = self._devices.hop(site, there, joined) if there != NOWHERE else None
            self._placed[spot] = PlacedStage(shard=shard, kind=sites[site].kind, hop=hop)
        return self._placed[spot]

    def _shard(self, tensor: int, num_layers: int, is_first: bool, is_last: bool) -> Shard:
        key = (tensor, num_layers, is_first, is_last)
        if key not in self._shards:
            self._shards[key] = Shard(
                architecture=self._work.architecture,
                tensor=tensor,
                num_layers=num_layers,
                is_first=is_first,
                is_last=is_last,
            )
        return self._shards[key]


def _spots(key: ReplicaKey) -> list[Spot]:
    following = [*[stage[0] for stage in key[1:]], NOWHERE]
    return [
        (stage, number == 0, there)
        for number, (stage, there) in enumerate(zip(key, following, strict=True))
    ]
