"""The most layers of a stage that a GPU holds; the bytes of each count are computed once.

``cost.memory`` counts the bytes; ``fitting`` chooses the layers of a stage.
"""

from bisect import bisect_right
from collections.abc import Callable
from functools import cache

from hetrl_core.plan.plan import TrainingMode
from hetrl_planner.cost import memory
from hetrl_planner.cost.memory import Footprint
from hetrl_planner.cost.shard import Shard
from hetrl_planner.problem.cached_method import cached_method
from hetrl_planner.problem.workload import Workload

Ends = tuple[bool, bool]
"""Whether a stage is the first of its replica, and whether it is the last."""


class StageMemory:
    """Answers for the stages of one job's models."""

    def __init__(self, work: Workload) -> None:
        self._work = work

    @cached_method
    def shard(self, tensor: int, num_layers: int, ends: Ends) -> Shard:
        """Return one rank's part of a stage."""
        return Shard(
            architecture=self._work.architecture,
            tensor=tensor,
            num_layers=num_layers,
            is_first=ends[0],
            is_last=ends[1],
        )

    def most_serving_layers(
        self, tensor: int, ends: Ends, *, is_generation: bool, free_bytes: float
    ) -> int:
        """Return the most layers to generate or score with, 0 if not even one fits."""
        return bisect_right(self._serving_bytes(tensor, ends, is_generation), free_bytes)

    @cached_method
    def _serving_bytes(self, tensor: int, ends: Ends, is_generation: bool) -> list[float]:
        """Return the bytes of each number of layers, from one on."""
        return [
            self._serving_footprint(self.shard(tensor, layers, ends), is_generation).total_bytes
            for layers in range(1, self._work.architecture.num_layers + 1)
        ]

    def most_training_layers(
        self,
        tensor: int,
        ends: Ends,
        *,
        mode: TrainingMode,
        num_replicas: int,
        passes_in_flight: int,
        free_bytes: float,
    ) -> int:
        """Return the most layers to train, 0 if not even one fits."""
        every = range(1, self._work.architecture.num_layers + 1)
        needed_bytes = self._training_bytes(tensor, ends, mode, num_replicas, passes_in_flight)
        return bisect_right(every, free_bytes, key=needed_bytes)

    @cached_method
    def _training_bytes(
        self, tensor: int, ends: Ends, mode: TrainingMode, num_replicas: int, passes_in_flight: int
    ) -> Callable[[int], float]:
        """Return the function from a number of layers to its bytes."""

        @cache
        def needed_bytes(num_layers: int) -> float:
            return memory.training_footprint(
                self.shard(tensor, num_layers, ends),
                self._work,
                mode=mode,
                num_replicas=num_replicas,
                passes_in_flight=passes_in_flight,
            ).total_bytes

        return needed_bytes

    def _serving_footprint(self, shard: Shard, is_generation: bool) -> Footprint:
        if not is_generation:
            return memory.inference_footprint(shard, self._work)
        longest = self._work.max_sample_tokens / self._work.sample_tokens
        return memory.generation_footprint(shard, self._work, concurrency=longest)
