"""Layers of each stage of a training pipeline.

They are divided so that the slowest stage, its sends to the next one included, is as fast as memory
allows (``balanced_layers``); ``stage_memory`` knows the limits of memory. Results are remembered by
their inputs.
"""

from collections.abc import Sequence
from itertools import zip_longest

from hetrl_core.plan.plan import Recompute, TrainingMode
from hetrl_planner.cost.inference import Pace, hidden_bytes
from hetrl_planner.cost.network import transfer_seconds
from hetrl_planner.cost.stage import PlacedStage, balanced_layers
from hetrl_planner.cost.training import turn
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.fit.stage_memory import Ends, StageMemory
from hetrl_planner.problem.cached_method import cached_method
from hetrl_planner.problem.workload import Workload

Place = tuple[int, int]
"""A site, and the bytes that other tasks keep on its GPUs."""

_Cut = tuple[int, TrainingMode, int]
"""Tensor size, way to train, and replicas."""

Hop = tuple[int, int, bool]
"""From a stage's site to the next one's, and whether both are on one machine."""

Hops = tuple[tuple[Hop, ...], ...]
"""Of each stage but the last, over all replicas."""

_Stage = tuple[float, float, int]
"""A training stage's fixed seconds for one sequence, those of each layer, and the most layers that
it holds. A plain tuple: a search keeps so many that objects would burden the garbage collector."""


class Balance:
    """Answers for one job on one fleet."""

    def __init__(self, work: Workload, devices: Devices, stage_memory: StageMemory) -> None:
        self._work = work
        self._devices = devices
        self._memory = stage_memory

    def layers(
        self,
        stage_places: Sequence[tuple[Place, ...]],
        *,
        tensor: int,
        mode: TrainingMode,
        num_replicas: int,
        hops: Hops = (),
    ) -> tuple[int, ...] | None:
        """Return the layers of each stage, ``None`` if they do not fit.

        Both are over all replicas: the places of each stage, and its hops to the next one, which
        are free unless passed.
        """
        return self._layers(tuple(stage_places), hops, (tensor, mode, num_replicas))

    @cached_method
    def _layers(
        self, stage_places: tuple[tuple[Place, ...], ...], hops: Hops, cut: _Cut
    ) -> tuple[int, ...] | None:
        last = len(stage_places) - 1
        stages = [
            self._stage(places, number == 0, 1 + last - number, cut)
            for number, places in enumerate(stage_places)
        ]
        fixed_seconds, layer_seconds, most_layers = zip(*stages, strict=True)
        hop_seconds = map(self._hop_seconds, hops)
        return balanced_layers(
            self._work.architecture.num_layers,
            fixed_seconds=[
                fixed + hop for fixed, hop in zip_longest(fixed_seconds, hop_seconds, fillvalue=0.0)
            ],
            layer_seconds=layer_seconds,
            most_layers=most_layers,
        )

    def _hop_seconds(self, hops: Sequence[Hop]) -> float:
        """Return the most that a sequence's hops to the next stage and back add to a turn."""
        return max(
            [
                2 * transfer_seconds(hidden_bytes(self._work), self._devices.hop(*each))
                for each in hops
            ]
        )

    @cached_method
    def _stage(
        self, places: tuple[Place, ...], is_first: bool, passes_in_flight: int, cut: _Cut
    ) -> _Stage:
        """Return a stage on all of these places: as slow and full as on the worst."""
        tensor, mode, num_replicas = cut
        ends = (is_first, passes_in_flight == 1)
        paces = [self.pace(site, tensor, ends, mode.recompute) for site, _ in places]
        usable_bytes = self._devices.usable_bytes
        most_layers = self._memory.most_training_layers(
            tensor,
            ends,
            mode=mode,
            num_replicas=num_replicas,
            passes_in_flight=passes_in_flight,
            free_bytes=min([usable_bytes[site] - reserved for site, reserved in places]),
        )
        return (
            max([pace.fixed_seconds for pace in paces]),
            max([pace.slot_seconds for pace in paces]),
            most_layers,
        )

    @cached_method
    def pace(self, site: int, tensor: int, ends: Ends, recompute: Recompute) -> Pace:
        """Return a stage's time for one sequence: the fixed part, and that of each layer."""
        kind = self._devices.sites[site].kind
        one, two = (
            turn(
                PlacedStage(shard=self._memory.shard(tensor, layers, ends), kind=kind),
                self._work,
                recompute,
            ).total_seconds
            for layers in (1, 2)
        )
        return Pace(slot_seconds=two - one, fixed_seconds=2 * one - two)
