"""Clusters for the user stories; with $KUBECONFIG set, they run on that one."""

from e2e.cluster.fixtures import api_server, cluster

__all__ = ["api_server", "cluster"]
