"""A real Kubernetes on this machine, without Docker: control plane, nodes, fake GPU nodes, images.

Belongs here: building, starting and stopping the parts, and the fixtures that hand them to tests.
Does not belong here: anything that knows HetRL's objects; tests and the chart bring those.
"""

from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import ClusterError, CommandFailedError
from e2e.cluster.machines import KINDS, Machine, NodePool, evenly

__all__ = [
    "KINDS",
    "Cluster",
    "ClusterError",
    "CommandFailedError",
    "Machine",
    "NodePool",
    "evenly",
]
