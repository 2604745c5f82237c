"""What pods say of their own trouble: images that cannot be had, disks that are full."""

from collections.abc import Iterator, Mapping
from typing import Any

_NO_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
_FULL = ("No space left on device", "disk quota exceeded", "DiskPressure", "low on resource: ephem")

Pod = Mapping[str, Any]


def name_of(pod: Pod) -> str:
    """Return a pod's name."""
    return str(pod["metadata"]["name"])


def is_ready(pod: Pod) -> bool:
    """Tell whether a pod says that it serves."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def image_trouble(pod: Pod) -> str:
    """Return why an image of a pod cannot be had; empty where nothing is known against it."""
    for container in _containers(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _NO_IMAGE:
            return f"{waiting['reason']} of {container.get('image')}: {waiting.get('message', '')}"
    return ""


def disk_trouble(pod: Pod) -> str:
    """Return what a pod said of a full disk; empty where it said nothing of one."""
    status = pod.get("status", {})
    said = [str(status.get("message", "")), str(status.get("reason", ""))]
    for container in _containers(pod):
        for moment in (container.get("state") or {}, container.get("lastState") or {}):
            said += [str(each.get("message", "")) for each in moment.values() if each]
    return next((text for text in said if any(sign in text for sign in _FULL)), "")


def _containers(pod: Pod) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status", {})
    for each in ("initContainerStatuses", "containerStatuses"):
        yield from status.get(each) or ()
