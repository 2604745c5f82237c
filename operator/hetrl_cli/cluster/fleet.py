"""The fleet of a cluster: Nodes and HetRLTopologies, listed once.

`hetrl plan` reads it here; the operator keeps a cache instead. ``hetrl_api`` interprets the labels
of nodes.
"""

import os
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from aiohttp import ClientError
from kubernetes.aio import client, config
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION

from hetrl_api.fleet.fleet import Fleet, fleet_of
from hetrl_api.fleet.topology import HetRLTopology
from hetrl_api.load import parse

GROUP, VERSION, TOPOLOGIES = "hetrl.dev", "v1alpha1", "hetrltopologies"

_PAGE_NODES = 500
_REQUEST_SECONDS = 30.0


class NoClusterError(Exception):
    """No API server could be asked; the message says what was tried."""


async def read_fleet(*, context: str | None = None) -> Fleet:
    """Return the fleet of the cluster that the kubeconfig names.

    Raises:
        NoClusterError: there is no kubeconfig, or its API server does not answer or refuses.
        InvalidObjectError: a HetRLTopology of the cluster is not valid.
    """
    paths = [Path(each).expanduser() for each in KUBE_CONFIG_DEFAULT_LOCATION.split(os.pathsep)]
    if not any(path.is_file() for path in paths):
        raise NoClusterError(f"no kubeconfig at {', '.join(str(path) for path in paths)}")
    configuration = client.Configuration()
    # A server that has just learned a kind answers 429 for a moment.
    configuration.client_go_retries = True
    try:
        await config.load_kube_config(context=context, client_configuration=configuration)
    except (ConfigException, OSError) as error:
        raise NoClusterError(f"the kubeconfig cannot be used: {error}") from error
    try:
        async with client.ApiClient(configuration) as api:
            return fleet_of_cluster(await _nodes(api), topologies=await _topologies(api))
    except client.ApiException as error:
        raise NoClusterError(f"the API server refused: {error.status} {error.reason}") from error
    except (ClientError, TimeoutError, OSError) as error:
        raise NoClusterError(f"the API server does not answer: {error}") from error


def fleet_of_cluster(
    nodes: Iterable[Mapping[str, Any]], *, topologies: Iterable[Mapping[str, Any]]
) -> Fleet:
    """Return the fleet of nodes as they are, with prices and links of topologies.

    Machines that a topology lists are for planning without a cluster; here the nodes count.
    """
    known = [parse(HetRLTopology, each) for each in topologies]
    return fleet_of(
        nodes,
        topologies=[
            each.model_copy(update={"spec": each.spec.model_copy(update={"pools": ()})})
            for each in known
        ],
    )


async def _nodes(api: client.ApiClient) -> list[dict[str, Any]]:
    core = client.CoreV1Api(api)
    found: list[dict[str, Any]] = []
    following = ""
    while True:
        page = await core.list_node(
            limit=_PAGE_NODES, _continue=following, _request_timeout=_REQUEST_SECONDS
        )
        found += [api.sanitize_for_serialization(node) for node in page.items]
        following = page.metadata._continue  # noqa: SLF001  # the client's name for `continue`
        if not following:
            return found


async def _topologies(api: client.ApiClient) -> list[dict[str, Any]]:
    try:
        listed = await client.CustomObjectsApi(api).list_cluster_custom_object(
            GROUP, VERSION, TOPOLOGIES, _request_timeout=_REQUEST_SECONDS
        )
    except client.ApiException as error:
        # hetrl plan works on clusters without HetRL.
        if error.status == HTTPStatus.NOT_FOUND:
            return []
        raise
    return list(listed["items"])
