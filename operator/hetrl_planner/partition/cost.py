"""The cost of a partition, which a search minimises.

One implementation is ``network.PipelineNetworkCost``; a planner passes its own to minimise the
whole plan's time.
"""

from typing import Protocol

from hetrl_planner.partition.graph import Labels


class PartitionCost(Protocol):
    """A cost of partitions; less is better, and infinite forbids a partition.

    Devices of one class (``DeviceGraph.class_of``) must cost the same: a cost that tells
    GPUs apart by more than their links gives them different weights in the graph.
    """

    def __call__(self, part_of: Labels, /) -> float:
        """Return the cost; ``part_of`` belongs to the caller and is not changed."""
        ...
