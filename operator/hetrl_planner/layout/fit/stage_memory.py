"""The most layers of a stage that a GPU holds; the bytes of each count are computed once.

``cost.memory`` counts the bytes; ``fitting`` chooses the layers of a stage.
"""

from bisect import bisect_right

from hetrl_core.plan.plan import TrainingMode
from hetrl_planner.cost import memory
from hetrl_planner.cost.memory import Footprint
from hetrl_planner.cost.shard import Shard
from hetrl_planner.problem.workload import Workload

Ends = tuple[bool, bool]
"""Whether a stage is the first of its replica, and whether it is the last."""


class StageMemory:
    """Answers for the stages of one job's models."""

    def __init__(self, work: Workload) -> None:
        self._work = work
        self._shards: dict[tuple[int, int, Ends], Shard] = {}
        self._serving: dict[tuple[bool, int, Ends], tuple[float, ...]] = {}
        self._training: dict[tuple[object, ...], dict[int, float]] = {}

    def shard(self, tensor: int, num_layers: int, ends: Ends) -> Shard:
        """Return one rank's part of a stage."""
        key = (tensor, num_layers, ends)
        known = self._shards.get(key)
        if known is None:
            known = self._shards[key] = Shard(
                architecture=self._work.architecture,
                tensor=tensor,
                num_layers=num_layers,
                is_first=ends[0],
                is_last=ends[1],
            )
        return known

    def most_serving_layers(
        self, tensor: int, ends: Ends, *, is_generation: bool, free_bytes: float
    ) -> int:
        """Return the most layers to generate or score with, 0 if not even one fits."""
        key = (is_generation, tensor, ends)
        needed = self._serving.get(key)
        if needed is None:
            needed = self._serving[key] = tuple(
                _bytes(self._serving_footprint(self.shard(tensor, layers, ends), is_generation))
                for layers in range(1, self._work.architecture.num_layers + 1)
            )
        return bisect_right(needed, free_bytes)

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
        key = (tensor, ends, mode, num_replicas, passes_in_flight)
        needed = self._training.setdefault(key, {})
        low, high = 0, self._work.architecture.num_layers
        while low < high:
            middle = (low + high + 1) // 2
            if middle not in needed:
                needed[middle] = _bytes(
                    memory.training_footprint(
                        self.shard(tensor, middle, ends),
                        self._work,
                        mode=mode,
                        num_replicas=num_replicas,
                        passes_in_flight=passes_in_flight,
                    )
                )
            if needed[middle] <= free_bytes:
                low = middle
            else:
                high = middle - 1
        return low

    def _serving_footprint(self, shard: Shard, is_generation: bool) -> Footprint:
        if not is_generation:
            return memory.inference_footprint(shard, self._work)
        longest = self._work.max_sample_tokens / self._work.sample_tokens
        return memory.generation_footprint(shard, self._work, concurrency=longest)


def _bytes(footprint: Footprint) -> float:
    return footprint.total_bytes
