"""Problems that pods report: images that cannot be pulled, disks that are full."""

from collections.abc import Mapping
from typing import Any

from hetrl_operator.model import containers
from hetrl_operator.model.labels import ROLE
from hetrl_operator.model.parse import pod_seen
from hetrl_operator.planning.scheduler_messages import is_about_machine, machine_words

_NO_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
_FULL = ("No space left on device", "disk quota exceeded", "DiskPressure", "low on resource: ephem")

Pod = Mapping[str, Any]


def name_of(pod: Pod) -> str:
    """Return a pod's name."""
    return str(pod["metadata"]["name"])


def role_of(pod: Pod) -> str:
    """Return a pod's role, which names the job's container; empty for a pod of no job."""
    return str((pod["metadata"].get("labels") or {}).get(ROLE, ""))


def is_ready(pod: Pod) -> bool:
    """Tell whether a pod says that it serves."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def image_trouble(pod: Pod, container_name: str = "") -> str:
    """Return why the image of a container cannot be pulled; empty if there is no such error.

    Args:
        pod: a v1 Pod.
        container_name: of the container; empty: the job's.
    """
    name = container_name or role_of(pod)
    container = containers.own_container(pod.get("status", {}), name)
    waiting = (container.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") in _NO_IMAGE:
        return f"{waiting['reason']} of {container.get('image')}: {waiting.get('message', '')}"
    return ""


def others_trouble(pod: Pod) -> str:
    """Return what is wrong with containers that others put into a pod that is not ready."""
    return "" if is_ready(pod) else containers.others_trouble(pod, role_of(pod))


def awaited_machine(pod: Pod) -> tuple[str, str]:
    """Return the machine that a pod is pinned to but cannot be scheduled on, and why."""
    seen = pod_seen(pod)
    if seen is None or seen.unschedulable_since is None or seen.node or seen.is_deleting:
        return "", ""
    machines = sorted(seen.affinity_nodes)
    machine = seen.selected_hostname or (machines[0] if len(machines) == 1 else "")
    if not machine or not is_about_machine(seen.waiting_message):
        return "", ""
    return machine, machine_words(seen.waiting_message)


def disk_trouble(pod: Pod) -> str:
    """Return what a pod or the job's container reported about a full disk; empty if nothing."""
    status = pod.get("status", {})
    said = [str(status.get("message", "")), str(status.get("reason", ""))]
    container = containers.own_container(status, role_of(pod))
    for moment in (container.get("state") or {}, container.get("lastState") or {}):
        said += [str(each.get("message", "")) for each in moment.values() if each]
    return next((text for text in said if any(sign in text for sign in _FULL)), "")
