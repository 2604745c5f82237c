"""What a search minimises: a number for each partition.

One implementation is ``network.PipelineNetworkCost``; a planner brings its own where the
whole plan's time matters.
"""

from typing import Protocol

from hetrl_planner.partition.graph import Labels


class PartitionCost(Protocol):
    """A cost of partitions; less is better, and infinite is not allowed at all.

    Devices of one class (``DeviceGraph.class_of``) must cost the same: a cost that tells
    GPUs apart by more than their links gives them different weights in the graph.
    """

    def __call__(self, part_of: Labels, /) -> float:
        """Return the cost; ``part_of`` is the caller's, and stays as it is."""
        ...
