"""Paths of the API server's resources, by kind."""

from typing import Final

from hetrl_operator.model.kueue import api as kueue_api

_COLLECTIONS: Final = {
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Event": "/api/v1/namespaces/{namespace}/events",
    "HetRLJob": "/apis/hetrl.dev/v1alpha1/namespaces/{namespace}/hetrljobs",
    "HetRLPlan": "/apis/hetrl.dev/v1alpha1/namespaces/{namespace}/hetrlplans",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "Secret": "/api/v1/namespaces/{namespace}/secrets",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "StatefulSet": "/apis/apps/v1/namespaces/{namespace}/statefulsets",
    "Workload": f"{kueue_api.PATH}/namespaces/{{namespace}}/workloads",
}


def collection(kind: str, namespace: str) -> str:
    """Return the path of all objects of a kind in a namespace."""
    return _COLLECTIONS[kind].format(namespace=namespace)
