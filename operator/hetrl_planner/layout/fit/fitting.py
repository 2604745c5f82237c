"""Splits of a replica that suit a site, and the best rate of its GPUs.

``balance`` divides the layers of pipelines that train, this module those that serve;
``stage_memory`` knows the limits of memory. Results are remembered by their inputs. Memory of other
tasks enters as reserved bytes, which change often and decide little. Searches use this to avoid
evaluating layouts that cannot be good.
"""

from functools import cached_property
from math import ceil, inf, prod
from operator import le

from hetrl_core.plan.capabilities import split_obstacle
from hetrl_core.plan.plan import Parallelism, Recompute, Sharding, TrainingMode
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.cost import compute, memory
from hetrl_planner.cost.generation import GenerationCost
from hetrl_planner.cost.inference import inference_pace
from hetrl_planner.cost.shard import Shard, split_layers
from hetrl_planner.cost.stage import balanced_layers, uniform_stages
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.fit.balance import Balance
from hetrl_planner.layout.fit.ranked import RankedSplits, Split
from hetrl_planner.layout.fit.splits import STAGE_COUNTS, TENSOR_SIZES, deciding
from hetrl_planner.layout.fit.stage_memory import Ends, StageMemory
from hetrl_planner.problem.cached_method import cached_method
from hetrl_planner.problem.workload import Workload

RESERVE_STEP_BYTES = 1 << 28
"""Unit to which reserved bytes are rounded up."""

ALL_MODES = tuple(
    TrainingMode(recompute=recompute, sharding=sharding)
    for sharding in Sharding
    for recompute in (Recompute.NONE, Recompute.FULL)
)
"""Training modes, the fastest first."""


class SplitFitter:
    """Answers for one job on one fleet."""

    def __init__(self, work: Workload, devices: Devices, *, runnable_only: bool = False) -> None:
        self.work = work
        self.devices = devices
        self.runnable_only = runnable_only
        """Whether splits that this release cannot run are left out."""
        self._memory = StageMemory(work)
        self.balance = Balance(work, devices, self._memory)

    @property
    def most_training_replicas(self) -> int:
        """The most replicas that each have a sequence of every minibatch."""
        return ceil(self.work.batch_size / self.work.minibatches)

    def least_resident_bytes(self, task: Task, *, num_gpus: int) -> float:
        """Return the least bytes that a task keeps on each of so many GPUs: all of it divided."""
        if task is Task.ACTOR_GENERATION:
            return 0.0
        if task in TRAINING_TASKS:
            return memory.training_state_bytes(self._whole.num_parameters) / num_gpus
        return memory.inference_footprint(self._whole, self.work).resident_bytes / num_gpus

    def least_bytes(self, task: Task) -> float:
        """Return the least bytes that a task needs on all its GPUs together."""
        if task is Task.ACTOR_GENERATION:
            return memory.generation_footprint(self._whole, self.work, concurrency=1).total_bytes
        return self.least_resident_bytes(task, num_gpus=1)

    @cached_property
    def scoring_bytes(self) -> tuple[float, float]:
        """Scoring's bytes on a GPU beside weights, uncut and cut as finely as possible."""
        finest = self._memory.shard(max(TENSOR_SIZES), 1, (False, False))
        return (
            memory.inference_footprint(self._whole, self.work).working_bytes,
            memory.inference_footprint(finest, self.work).working_bytes,
        )

    @cached_property
    def _whole(self) -> Shard:
        """The uncut model."""
        return self._memory.shard(1, self.work.architecture.num_layers, (True, True))

    def rate_per_gpu(self, task: Task, site: int) -> float:
        """Return the best rate of a task on a GPU of a site, in trajectories a second.

        Communication between replicas is left out, so no plan is faster. 0 if no replica fits
        the site.
        """
        if task not in TRAINING_TASKS:
            splits = self.splits(task, site, reserved_bytes=0)
            return max(
                (
                    self.rate(task, site, split, reserved_bytes=0) / (split[0] * split[1])
                    for split in splits
                ),
                default=0.0,
            )
        rates = [0.0]
        for tensor, stages in self._possible_splits(site):
            for mode in ALL_MODES:
                layers = self.balance.layers(
                    [((site, 0),)] * stages,
                    tensor=tensor,
                    mode=mode,
                    num_replicas=self.most_training_replicas,
                )
                if layers is not None:
                    slot = max(
                        self.balance.pace(site, tensor, ends, mode.recompute).seconds(count)
                        for ends, count in zip(_ends(stages), layers, strict=True)
                    )
                    rates.append(1 / slot / tensor / stages)
        return max(rates)

    def may_be(self, task: Task, split: Split) -> bool:
        """Tell whether the task's engine supports a split."""
        if not self.runnable_only:
            return True
        model, (tensor, stages) = self.work.architecture, split
        cut = Parallelism(tensor=tensor, stage_layers=split_layers(model, stages))
        return not split_obstacle(task, cut, self.work.engine, model)

    @cached_method
    def may_be_alike(self, tasks: tuple[Task, ...], split: Split) -> bool:
        """Tell whether all tasks of a group that are cut alike support a split."""
        return all(self.may_be(task, split) for task in deciding(tasks))

    # Training

    @cached_method
    def least_training_seconds(self, site: int) -> float:
        """Return the seconds of one trajectory on a GPU at its peak FLOPS."""
        return compute.training_seconds(
            self._whole,
            self.devices.sites[site].kind,
            tokens=self.work.sample_tokens,
            recompute=Recompute.NONE,
            forward_only_passes=0,
        )

    # Generation and scoring

    def splits(self, task: Task, site: int, *, reserved_bytes: int) -> RankedSplits:
        """Return the splits of a replica that fit a site, the one with the fastest GPUs first."""
        return self._ranked_splits(self._likeness(task), site, reserved_bytes)

    @cached_method
    def _ranked_splits(self, task: Task, site: int, reserved_bytes: int) -> RankedSplits:
        # ``self`` is a weak reference here, so that the results do not keep the object.
        def rate(split: Split) -> float:
            return self.rate(task, site, split, reserved_bytes=reserved_bytes)

        return RankedSplits(self._rates_at_most(task, site), rate if reserved_bytes else None)

    @cached_method
    def _rates_at_most(self, task: Task, site: int) -> tuple[tuple[float, Split], ...]:
        """Return the rate of each split on empty GPUs."""
        return tuple(
            (self.rate(task, site, split, reserved_bytes=0), split)
            for split in self._possible_splits(site)
            if self.may_be(task, split)
        )

    def _likeness(self, task: Task) -> Task:
        """Return the task that stands for all tasks with equal splits."""
        is_alike = task is not Task.ACTOR_GENERATION and not self.runnable_only
        return Task.REFERENCE_INFERENCE if is_alike else task

    @cached_method
    def splits_beside_generation(self, site: int, reserved_bytes: int) -> tuple[Split, ...]:
        """Return scoring's splits on GPUs that generate too, the best for both first.

        Scoring's model takes memory from generation's cache, so scoring's fastest split may make
        both together slow.
        """
        splits = self.splits(Task.REFERENCE_INFERENCE, site, reserved_bytes=reserved_bytes)
        return tuple(
            sorted(splits, key=lambda split: self._gpu_seconds(site, split, reserved_bytes))
        )

    def _gpu_seconds(self, site: int, split: Split, reserved_bytes: int) -> float:
        """Return the time of one GPU to score a trajectory and to generate one beside that."""
        task = Task.REFERENCE_INFERENCE
        layers = self.serving_layers(task, site, split, reserved_bytes=reserved_bytes)
        assert layers is not None
        beside = reserved_step(reserved_bytes + self._scoring_kept_bytes(split[0], layers))
        generating = self.splits(Task.ACTOR_GENERATION, site, reserved_bytes=beside).first
        if generating is None:
            return inf
        rate = self.rate(Task.ACTOR_GENERATION, site, generating, reserved_bytes=beside)
        return (
            prod(split) / self.rate(task, site, split, reserved_bytes=reserved_bytes)
            + prod(generating) / rate
        )

    @cached_method
    def _scoring_kept_bytes(self, tensor: int, layers: tuple[int, ...]) -> float:
        """Return the most that a stage of a scoring replica keeps on a GPU."""
        shards = (
            self._memory.shard(tensor, count, ends)
            for count, ends in zip(layers, _ends(len(layers)), strict=True)
        )
        return max(memory.inference_footprint(each, self.work).resident_bytes for each in shards)

    @cached_method
    def splits_alike(self, tasks: tuple[Task, ...], site: int) -> tuple[Split, ...]:
        """Return the splits that fit tasks which serve on the same GPUs, the best first."""
        rated = [
            (-self.rate_alike(tasks, site, split) / prod(split), prod(split), split)
            for split in self._possible_splits(site)
            if self.may_be_alike(tasks, split)
        ]
        return tuple(split for rate, _, split in sorted(rated) if rate)

    def rate_alike(self, tasks: tuple[Task, ...], site: int, split: Split) -> float:
        """Return the rate of a replica that serves several tasks in turns; 0 if it cannot fit.

        Each has one stage: programs that serve others never have more.
        """
        shard = self._memory.shard(split[0], self.work.architecture.num_layers, (True, True))
        scoring = [task for task in tasks if task is not Task.ACTOR_GENERATION]
        held = [memory.inference_footprint(shard, self.work, task) for task in scoring]
        held += memory.more_programs(tasks, self.work)
        beside = reserved_step(memory.beside_generation(held, self.work))
        if beside > self.devices.usable_bytes[site]:
            return 0.0
        rates = [self.rate(task, site, split, reserved_bytes=0) for task in scoring]
        if Task.ACTOR_GENERATION in tasks:
            rates.append(self.rate(Task.ACTOR_GENERATION, site, split, reserved_bytes=beside))
        return 1 / sum(1 / rate for rate in rates) if all(rates) else 0.0

    def serving_layers(
        self, task: Task, site: int, split: Split, *, reserved_bytes: int
    ) -> tuple[int, ...] | None:
        """Return the layers of each stage of a replica on one site, ``None`` if it cannot fit."""
        return self._serving_layers(task is Task.ACTOR_GENERATION, site, split, reserved_bytes)

    @cached_method
    def _serving_layers(
        self, is_generation: bool, site: int, split: Split, reserved_bytes: int
    ) -> tuple[int, ...] | None:
        tensor, stages = split
        every = _ends(stages)
        most = {
            ends: self._memory.most_serving_layers(
                tensor,
                ends,
                is_generation=is_generation,
                free_bytes=self.devices.usable_bytes[site] - reserved_bytes,
            )
            for ends in set(every)
        }
        return self._balanced_serving(site, tensor, tuple([most[ends] for ends in every]))

    @cached_method
    def _balanced_serving(
        self, site: int, tensor: int, most_layers: tuple[int, ...]
    ) -> tuple[int, ...] | None:
        # Many values of reserved bytes leave room for the same layers, which are balanced once.
        unbound = (self.work.architecture.num_layers,) * len(most_layers)
        if most_layers != unbound:
            layers = self._balanced_serving(site, tensor, unbound)
            if layers and all(map(le, layers, most_layers)):
                return layers
        layer_seconds, head_seconds = self._decode_pace(site, tensor)
        last = len(most_layers) - 1
        return balanced_layers(
            self.work.architecture.num_layers,
            fixed_seconds=[*[0.0] * last, head_seconds],
            layer_seconds=[layer_seconds] * (last + 1),
            most_layers=most_layers,
        )

    @cached_method
    def _decode_pace(self, site: int, tensor: int) -> tuple[float, float]:
        """Return the time to read one layer for a token, and the head."""
        one, two, ended = (
            compute.decode_hbm_seconds(
                self._memory.shard(tensor, layers, (True, is_last)),
                self.devices.sites[site].kind,
                sequences=1,
                context_tokens=1,
            )
            for layers, is_last in ((1, False), (2, False), (1, True))
        )
        return two - one, ended - one

    def rate(self, task: Task, site: int, split: Split, *, reserved_bytes: int) -> float:
        """Return a replica's rate with its share of trajectories in flight; 0 if it cannot fit."""
        layers = self.serving_layers(task, site, split, reserved_bytes=reserved_bytes)
        if layers is None:
            return 0.0
        if task is not Task.ACTOR_GENERATION:
            return self._scoring_rate(site, split, layers)
        held = min(
            [
                room.concurrency(beside_bytes=float(reserved_bytes))
                for room in self._cache_rooms(site, split, layers)
            ]
        )
        if not held:
            return 0.0
        part = 2 * self.work.most_running * split[0] * split[1] / self.devices.num_gpus
        return self._replica(site, split, layers).samples_per_second(min(held, max(1.0, part)))

    @cached_method
    def _scoring_rate(self, site: int, split: Split, layers: tuple[int, ...]) -> float:
        return 1 / inference_pace(self.work, self._replica(site, split, layers).stages).slot_seconds

    @cached_method
    def _cache_rooms(
        self, site: int, split: Split, layers: tuple[int, ...]
    ) -> tuple[memory.CacheRoom, ...]:
        """Return the bytes of each stage of a replica left for keys and values."""
        return tuple(
            memory.cache_room(stage.shard, stage.kind, self.work)
            for stage in self._replica(site, split, layers).unlike_stages
        )

    @cached_method
    def _replica(self, site: int, split: Split, layers: tuple[int, ...]) -> GenerationCost:
        """Return a replica on one site, with the wire that it needs at worst."""
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
        return GenerationCost(work=self.work, stages=stages)

    @cached_method
    def _possible_splits(self, site: int) -> tuple[Split, ...]:
        here, model = self.devices.sites[site], self.work.architecture
        return tuple(
            (tensor, stages)
            for tensor in TENSOR_SIZES
            for stages in STAGE_COUNTS
            if tensor <= here.largest_machine_gpus
            and not model.num_query_heads % tensor
            and stages <= model.num_layers
            and tensor * stages <= here.num_gpus
        )


def reserved_step(reserved_bytes: float) -> int:
    """Return reserved bytes rounded up, so that similar cases share one result."""
    return ceil(reserved_bytes / RESERVE_STEP_BYTES) * RESERVE_STEP_BYTES


def _ends(num_stages: int) -> list[Ends]:
    last = num_stages - 1
    return [(number == 0, number == last) for number in range(num_stages)]
