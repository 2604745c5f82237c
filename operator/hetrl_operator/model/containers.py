"""Statuses of a pod's containers: the job's own, and the problems of injected ones.

Webhooks of meshes and agents add containers, init containers and native sidecars to pods. The
kubelet sorts statuses by name, so positions in these lists mean nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Body = Mapping[str, Any]

_NOT_STARTED = frozenset({"", "PodInitializing", "ContainerCreating"})
"""Waiting reasons that say nothing about the container itself."""


def own_container(status: Body, role: str) -> Body:
    """Return the status of the job's container, which ``render.pod`` names after the pod's role.

    It is empty until the kubelet has written one.
    """
    found = (each for each in status.get("containerStatuses") or () if each.get("name") == role)
    return next(found, {})


def other_containers(pod: Body, role: str) -> Iterator[Body]:
    """Yield the statuses of the containers that are not the job's: init containers first."""
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from (each for each in status.get("containerStatuses") or () if each.get("name") != role)


def others_trouble(pod: Body, role: str) -> str:
    """Say which injected containers keep a pod from being ready, and why; empty if none does.

    Args:
        pod: a v1 Pod.
        role: the pod's role, which is the name of the job's container.
    """
    # A sidecar that is not ready only matters once the job's own container is ready.
    is_waited_for = bool(own_container(pod.get("status") or {}, role).get("ready"))
    initial = {
        each["name"]
        for each in (pod.get("spec") or {}).get("initContainers") or ()
        if each.get("restartPolicy") != "Always"
    }
    said = (
        _init_trouble(each)
        if each.get("name") in initial
        else _trouble(each, is_waited_for=is_waited_for)
        for each in other_containers(pod, role)
    )
    return "; ".join(each for each in said if each)


def _init_trouble(container: Body) -> str:
    """Say why an init container has not ended; no other container starts before."""
    state, name = container.get("state") or {}, f"init container {container.get('name')}"
    if waiting := state.get("waiting"):
        return _waiting(name, waiting, container)
    if ended := state.get("terminated"):
        return f"{name} {_end(ended)}" if ended.get("exitCode") else ""
    return f"{name} has not ended yet" if state.get("running") else ""


def _trouble(container: Body, *, is_waited_for: bool) -> str:
    """Say why a sidecar is not ready, native or not."""
    state, name = container.get("state") or {}, f"container {container.get('name')}"
    if waiting := state.get("waiting"):
        return _waiting(name, waiting, container)
    if ended := state.get("terminated"):
        return f"{name} {_end(ended)}"
    return f"{name} is not ready" if is_waited_for and not container.get("ready") else ""


def _waiting(name: str, waiting: Body, container: Body) -> str:
    last = (container.get("lastState") or {}).get("terminated")
    reason, message = str(waiting.get("reason", "")), str(waiting.get("message", ""))
    if reason in _NOT_STARTED and not last:
        return ""
    parts = [reason, message, _end(last) if last else ""]
    return f"{name}: {', '.join(part for part in parts if part)}"


def _end(ended: Body) -> str:
    lines = str(ended.get("message", "")).strip().splitlines()[-1:]
    return ", ".join([f"ended with {ended.get('exitCode', 0)}", *lines])
