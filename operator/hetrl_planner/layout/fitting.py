"""How many layers a stage can and should have, and which split suits a site.

Layers are divided so that the slowest stage is as fast as memory allows (``balanced_layers``).
Everything is remembered by site and size; what other tasks keep on a GPU enters as reserved
bytes. Searches ask here, so that they need not evaluate what cannot be good.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from math import ceil

from hetrl_core.plan import Parallelism, Recompute, Sharding, TrainingMode
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.candidates import STAGE_COUNTS, TENSOR_SIZES
from hetrl_planner.cost import compute, memory
from hetrl_planner.cost.generation import GenerationCost
from hetrl_planner.cost.inference import Pace, inference_pace
from hetrl_planner.cost.memory import Footprint
from hetrl_planner.cost.shard import Shard, shards
from hetrl_planner.cost.stage import PlacedStage, balanced_layers, uniform_stages
from hetrl_planner.cost.training import turn
from hetrl_planner.layout.devices import Devices
from hetrl_planner.workload import Workload

RESERVE_STEP_BYTES = 1 << 28
"""Reserved bytes are rounded up to this, so that like cases are remembered as one."""

ALL_MODES = tuple(
    TrainingMode(recompute=recompute, sharding=sharding)
    for sharding in Sharding
    for recompute in (Recompute.NONE, Recompute.FULL)
)
"""Ways to train, those that cost least time first."""

Place = tuple[int, int]
"""A site, and the bytes that other tasks keep on its GPUs."""

Split = tuple[int, int]
"""Tensor and pipeline sizes of a replica."""


class Fitting:
    """Answers for one job on one fleet."""

    def __init__(self, work: Workload, devices: Devices) -> None:
        self.work = work
        self.devices = devices
        self._layers: dict[tuple[object, ...], tuple[int, ...] | None] = {}
        self._paces: dict[tuple[object, ...], Pace] = {}
        self._most: dict[tuple[object, ...], int] = {}
        self._splits: dict[tuple[Task, int, int], tuple[Split, ...]] = {}
        self._least: dict[int, float] = {}

    @property
    def most_training_replicas(self) -> int:
        """Replicas of which each still has a sequence of every minibatch."""
        return ceil(self.work.batch_size / self.work.minibatches)

    def least_resident_bytes(self, task: Task, *, num_gpus: int) -> float:
        """Return what a task keeps on each of so many GPUs at least: all of it divided."""
        (whole,) = shards(self.work.architecture, self._uncut)
        if task is Task.ACTOR_GENERATION:
            return 0.0
        if task in TRAINING_TASKS:
            return memory.training_state_bytes(whole.num_parameters) / num_gpus
        return memory.inference_footprint(whole, self.work).resident_bytes / num_gpus

    @cached_property
    def scoring_bytes(self) -> float:
        """What a GPU that scores with an uncut model needs beside its weights."""
        (whole,) = shards(self.work.architecture, self._uncut)
        return memory.inference_footprint(whole, self.work).working_bytes

    @property
    def _uncut(self) -> Parallelism:
        return Parallelism(tensor=1, stage_layers=(self.work.architecture.num_layers,))

    def rate_per_gpu(self, task: Task, site: int) -> float:
        """Return the trajectories a second that a GPU of a site does of a task, at best.

        Communication between replicas is left out, so no plan does more. 0 where no replica
        fits the site.
        """
        if task not in TRAINING_TASKS:
            splits = self.splits(task, site, reserved_bytes=0)
            return max(
                (self._rate(task, site, split, 0) / (split[0] * split[1]) for split in splits),
                default=0.0,
            )
        rates = [0.0]
        for tensor, stages in self._possible_splits(site):
            for mode in ALL_MODES:
                layers = self.training_layers(
                    [((site, 0),)] * stages, tensor=tensor, mode=mode,
                    num_replicas=self.most_training_replicas,
                )  # fmt: skip
                if layers is not None:
                    slot = max(
                        self._training_pace(
                            site, tensor, number == 0, number == stages - 1, mode.recompute
                        ).seconds(count)
                        for number, count in enumerate(layers)
                    )
                    rates.append(1 / slot / tensor / stages)
        return max(rates)

    # Training

    def least_training_seconds(self, site: int) -> float:
        """Return what one trajectory takes a GPU that does nothing but multiply."""
        if site not in self._least:
            (whole,) = shards(self.work.architecture, self._uncut)
            self._least[site] = compute.training_seconds(
                whole, self.devices.sites[site].kind, tokens=self.work.sample_tokens,
                recompute=Recompute.NONE, forward_only_passes=0,
            )  # fmt: skip
        return self._least[site]

    def training_layers(
        self,
        stage_places: Sequence[tuple[Place, ...]],
        *,
        tensor: int,
        mode: TrainingMode,
        num_replicas: int,
    ) -> tuple[int, ...] | None:
        """Return the layers of each stage, ``None`` where they do not fit.

        ``stage_places`` are those on which each stage stands, over all replicas.
        """
        key = (tuple(stage_places), tensor, mode, num_replicas)
        if key not in self._layers:
            last = len(stage_places) - 1

            def shard(stage: int, layers: int) -> Shard:
                return self._shard(tensor, layers, is_first=stage == 0, is_last=stage == last)

            def most_layers(stage: int, place: Place) -> int:
                site, reserved_bytes = place
                ends = (stage == 0, stage == last)
                key = (place, tensor, ends, last - stage, mode, num_replicas)
                if key not in self._most:
                    self._most[key] = self._most_layers(
                        site,
                        lambda layers: memory.training_footprint(
                            shard(stage, layers), self.work, mode=mode,
                            num_replicas=num_replicas, passes_in_flight=last + 1 - stage,
                        ),
                        reserved_bytes,
                    )  # fmt: skip
                return self._most[key]

            paces = [
                [
                    self._training_pace(site, tensor, stage == 0, stage == last, mode.recompute)
                    for site, _ in places
                ]
                for stage, places in enumerate(stage_places)
            ]
            self._layers[key] = balanced_layers(
                self.work.architecture.num_layers,
                fixed_seconds=[max(pace.fixed_seconds for pace in each) for each in paces],
                layer_seconds=[max(pace.slot_seconds for pace in each) for each in paces],
                most_layers=[
                    min(most_layers(stage, place) for place in places)
                    for stage, places in enumerate(stage_places)
                ],
            )
        return self._layers[key]

    def _training_pace(
        self, site: int, tensor: int, is_first: bool, is_last: bool, recompute: Recompute
    ) -> Pace:
        """Return a stage's time for one sequence: what is fixed, and what each layer adds."""
        key = (site, tensor, is_first, is_last, recompute)
        if key not in self._paces:
            one, two = (
                turn(
                    PlacedStage(
                        shard=self._shard(tensor, layers, is_first=is_first, is_last=is_last),
                        kind=self.devices.sites[site].kind,
                    ),
                    self.work,
                    recompute,
                ).total_seconds
                for layers in (1, 2)
            )
            self._paces[key] = Pace(slot_seconds=two - one, fixed_seconds=2 * one - two)
        return self._paces[key]

    def _most_layers(
        self, site: int, footprint: Callable[[int], Footprint], reserved_bytes: int
    ) -> int:
        """Return the most layers that a GPU of a site holds, 0 where not even one fits."""
        kind = self.devices.sites[site].kind
        free = kind.memory_bytes - memory.overhead_bytes(kind) - reserved_bytes
        low, high = 0, self.work.architecture.num_layers
        while low < high:
            middle = (low + high + 1) // 2
            needed = footprint(middle)
            if needed.resident_bytes + needed.working_bytes <= free:
                low = middle
            else:
                high = middle - 1
        return low

    # Generation and scoring

    def splits(self, task: Task, site: int, *, reserved_bytes: int) -> tuple[Split, ...]:
        """Return the splits of a replica that fit a site, the one with the fastest GPUs first."""
        key = (task, site, reserved_bytes)
        if key not in self._splits:
            rated = [
                (rate / (tensor * stages), -tensor * stages, (tensor, stages))
                for tensor, stages in self._possible_splits(site)
                if (rate := self._rate(task, site, (tensor, stages), reserved_bytes))
            ]
            self._splits[key] = tuple(split for *_, split in sorted(rated, reverse=True))
        return self._splits[key]

    def serving_layers(
        self, task: Task, site: int, split: Split, *, reserved_bytes: int
    ) -> tuple[int, ...] | None:
        """Return the layers of each stage of a replica on one site, ``None`` if it cannot fit."""
        key = (task is Task.ACTOR_GENERATION, site, split, reserved_bytes)
        if key not in self._layers:
            self._layers[key] = self._balanced_serving(task, site, split, reserved_bytes)
        return self._layers[key]

    def _balanced_serving(
        self, task: Task, site: int, split: Split, reserved_bytes: int
    ) -> tuple[int, ...] | None:
        tensor, stages = split
        kind, last = self.devices.sites[site].kind, stages - 1

        def shard(stage: int, layers: int) -> Shard:
            return self._shard(tensor, layers, is_first=stage == 0, is_last=stage == last)

        def footprint(stage: int, layers: int) -> Footprint:
            if task is not Task.ACTOR_GENERATION:
                return memory.inference_footprint(shard(stage, layers), self.work)
            longest = self.work.max_sample_tokens / self.work.sample_tokens
            return memory.generation_footprint(shard(stage, layers), self.work, concurrency=longest)

        one, two, ended = (
            compute.decode_hbm_seconds(
                self._shard(tensor, layers, is_first=True, is_last=is_last),
                kind, sequences=1, context_tokens=1,
            )
            for layers, is_last in ((1, False), (2, False), (1, True))
        )  # fmt: skip
        return balanced_layers(
            self.work.architecture.num_layers,
            fixed_seconds=[*[0.0] * last, ended - one],
            layer_seconds=[two - one] * stages,
            most_layers=[
                self._most_layers(site, partial(footprint, stage), reserved_bytes)
                for stage in range(stages)
            ],
        )

    def _rate(self, task: Task, site: int, split: Split, reserved_bytes: int) -> float:
        """Return a replica's rate with its part of what may be in flight; 0 if it cannot fit."""
        layers = self.serving_layers(task, site, split, reserved_bytes=reserved_bytes)
        if layers is None:
            return 0.0
        here = self.devices.sites[site]
        channel = self.devices.inside(site)
        if split[0] * split[1] > here.largest_machine_gpus:
            channel = self.devices.between(here.region, here.region)
        stages = uniform_stages(
            self.work.architecture,
            Parallelism(tensor=split[0], stage_layers=layers),
            here.kind,
            channel,
        )
        if task is not Task.ACTOR_GENERATION:
            return 1 / inference_pace(self.work, stages).slot_seconds
        held = min(
            memory.max_concurrency(
                stage.shard, stage.kind, self.work, beside_bytes=float(reserved_bytes)
            )
            for stage in stages
        )
        part = 2 * self.work.most_running * split[0] * split[1] / self.devices.num_gpus
        if not held:
            return 0.0
        cost = GenerationCost(work=self.work, stages=stages)
        return cost.samples_per_second(min(held, max(1.0, part)))

    def _possible_splits(self, site: int) -> list[Split]:
        here, model = self.devices.sites[site], self.work.architecture
        return [
            (tensor, stages)
            for tensor in TENSOR_SIZES
            for stages in STAGE_COUNTS
            if tensor <= here.largest_machine_gpus
            and not model.num_query_heads % tensor
            and stages <= model.num_layers
            and tensor * stages <= here.num_gpus
        ]

    def _shard(self, tensor: int, layers: int, *, is_first: bool, is_last: bool) -> Shard:
        return Shard(
            architecture=self.work.architecture, tensor=tensor, num_layers=layers,
            is_first=is_first, is_last=is_last,
        )  # fmt: skip
