"""The network time of data and pipeline parallelism on a partition, as DT-FM defines it.

Yuan et al., *Decentralized Training of Foundation Models in Heterogeneous Environments*,
NeurIPS 2022, section 3 and the authors' published scheduler. Parts are pipeline stages,
their members the data-parallel replicas of that stage:

    C_dp  = max over parts, devices i of:  sum over j != i of  2 (latency_ij + G / (P · bw_ij))
    w_ij  = latency_ij + A / bw_ij
    C_pp  = shortest path through all parts; between two parts, the bottleneck matching of w
    total = C_dp + 2 C_pp

G are the bytes of a stage's gradients, A those of one activation, P the members of a part.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hetrl_planner.partition.graph import DeviceGraph, Labels, Matrix
from hetrl_planner.partition.matching import bottleneck_matching
from hetrl_planner.partition.path import shortest_path
from hetrl_planner.partition.shape import Partition, Shape

CACHED_PARTS = 1 << 16
CACHED_PAIRS = 1 << 18
"""Parts and pairs of parts whose times are kept: a search meets the same ones again and again."""


Part = tuple[int, ...]
"""How many devices of each class are in a part. Parts of equal counts cost the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOrder:
    """A partition as a pipeline: the order in which devices pass activations."""

    stages: tuple[tuple[int, ...], ...]
    """Devices by stage; the same position in each stage is one pipeline."""

    data_parallel_seconds: float
    pipeline_seconds: float
    """One way through the pipeline: ``C_pp``."""

    @property
    def total_seconds(self) -> float:
        """Forward and backward through the pipeline, and the gradients."""
        return self.data_parallel_seconds + 2 * self.pipeline_seconds


class PipelineNetworkCost:
    """DT-FM's cost of a partition into stages of equally many devices, in seconds."""

    def __init__(
        self, graph: DeviceGraph, shape: Shape, *, gradient_bytes: float, activation_bytes: float
    ) -> None:
        if len(set(shape.part_sizes)) != 1:
            raise ValueError(f"stages must be of one size, got {shape.part_sizes}")
        if shape.num_devices != len(graph):
            raise ValueError(
                f"part_sizes must take all {len(graph)} devices, got {shape.num_devices}"
            )
        self.graph, self.shape = graph, shape
        stage_gradient = gradient_bytes / shape.part_sizes[0]
        self._activation = graph.transfer_seconds(activation_bytes)
        self._part_seconds = lru_cache(CACHED_PARTS)(self._data_parallel_seconds)
        self._pair_seconds = lru_cache(CACHED_PAIRS)(self._boundary_seconds)
        self._class_of = graph.class_of
        self._gradient_by_class = _by_class(2 * graph.transfer_seconds(stage_gradient), graph)
        self._activation_by_class = _by_class(self._activation, graph)

    def __call__(self, part_of: Labels, /) -> float:
        """Return ``C_dp + 2 C_pp``."""
        parts = self._parts(part_of)
        data_parallel = max(map(self._part_seconds, parts))
        return data_parallel + 2 * shortest_path(self._boundaries(parts))[0]

    def order(self, partition: Partition) -> StageOrder:
        """Return the stages in their best order, with their pipelines side by side."""
        parts = [np.array(partition.members(part)) for part in range(self.shape.num_parts)]
        kinds = self._parts(np.array(partition.part_of))
        seconds, path = shortest_path(self._boundaries(kinds))
        stages = [parts[path[0]]]
        for part in path[1:]:
            stages.append(self._matched(stages[-1], parts[part]))
        return StageOrder(
            stages=tuple(tuple(int(device) for device in stage) for stage in stages),
            data_parallel_seconds=max(map(self._part_seconds, kinds)),
            pipeline_seconds=seconds,
        )

    def _matched(self, stage: Labels, part: Labels) -> Labels:
        """Return a part's devices in the order of those of the stage before that they follow."""
        found = bottleneck_matching(
            self._activation[np.ix_(stage, part)].tolist(),
            rows=[1] * len(stage),
            columns=[1] * len(part),
        )
        return part[[column for _, column, _ in found.pairs]]

    def _parts(self, part_of: Labels) -> list[Part]:
        classes = len(self._gradient_by_class)
        counts = np.bincount(
            part_of * classes + self._class_of, minlength=self.shape.num_parts * classes
        )
        return [tuple(row) for row in counts.reshape(self.shape.num_parts, classes).tolist()]

    def _boundaries(self, parts: list[Part]) -> Matrix:
        found = np.zeros((len(parts), len(parts)))
        for first, one in enumerate(parts):
            for second in range(first + 1, len(parts)):
                other = parts[second]
                pair = (one, other) if one <= other else (other, one)
                found[first, second] = found[second, first] = self._pair_seconds(*pair)
        return found

    def _data_parallel_seconds(self, part: Part) -> float:
        seconds = self._gradient_by_class
        present = [number for number, count in enumerate(part) if count]
        return max(
            sum(part[other] * seconds[one][other] for other in present) - seconds[one][one]
            for one in present
        )

    def _boundary_seconds(self, one: Part, other: Part) -> float:
        rows = [number for number, count in enumerate(one) if count]
        columns = [number for number, count in enumerate(other) if count]
        return bottleneck_matching(
            [[self._activation_by_class[row][column] for column in columns] for row in rows],
            rows=[one[row] for row in rows],
            columns=[other[column] for column in columns],
        ).bottleneck


def _by_class(seconds: Matrix, graph: DeviceGraph) -> list[list[float]]:
    """Return the seconds between two devices of each two classes; 0 for a class of one alone."""
    classes = range(int(graph.class_of.max()) + 1)
    members = [np.flatnonzero(graph.class_of == number)[:2] for number in classes]
    return [
        [float(seconds[members[one][0], members[other][-1]]) for other in classes]
        for one in classes
    ]
