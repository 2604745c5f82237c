"""The objects of a job's preflight: a ConfigMap with the request, and a pod that answers it.

The pod runs the job's trainer image without a GPU, a token of the API server or the right to write
anywhere but its own folders.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hetrl_api.job.to_core import CLAIMS_PATH
from hetrl_core.preflight import digest_of, request_of, request_to_json
from hetrl_core.task import Role
from hetrl_operator.model.actions import Manifest
from hetrl_operator.model.labels import COMPONENT, PREFLIGHT, PREFLIGHT_HASH, child_name, of_child
from hetrl_operator.model.observed import JobSeen, ParsedSpec
from hetrl_operator.render.deployment import Json, owner_of
from hetrl_operator.render.pod import (
    affinity_to,
    container_security,
    environment,
    named,
    pod_security,
    tolerations_of,
)
from hetrl_operator.render.volumes import claims_of, users_mount, users_volume
from hetrl_operator.settings import PodSettings

REQUEST_DIRECTORY = "/hetrl/preflight"
REQUEST_FILE = "request.json"
ACTIVE_DEADLINE_SECONDS = 900
"""Time limit of the pod once it runs: the slowest check reads every row of the data."""

_CPU_LIMIT = "2"
_MEMORY_LIMIT = "4Gi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The inputs of the manifests."""

    job: JobSeen
    parsed: ParsedSpec
    machines: Sequence[str]
    """Machines that the job may get GPUs of. The pod must be on one: a claim that is bound to a
    zone at its first pod would otherwise be bound where there are no such GPUs."""

    settings: PodSettings


def preflight_name(job: JobSeen) -> str:
    """Name the pod of a job's preflight, and its ConfigMap."""
    return child_name(job.name, PREFLIGHT)


def preflight_digest(parsed: ParsedSpec) -> str:
    """Digest what a preflight checks of a job."""
    return digest_of(request_of(parsed.spec))


def preflight_objects(preflight: Preflight) -> tuple[Manifest, Manifest]:
    """Return the ConfigMap and the pod."""
    request = request_to_json(request_of(preflight.parsed.spec))
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(preflight),
        "data": {REQUEST_FILE: request},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(preflight),
        "spec": _pod_spec(preflight),
    }
    return config_map, pod


def _metadata(preflight: Preflight) -> Json:
    job, written = preflight.job, preflight.parsed.written.runtime.pod_template
    return {
        "name": preflight_name(job),
        "namespace": job.namespace,
        "labels": {**written.labels, **of_child(job.name, job.uid), COMPONENT: PREFLIGHT},
        "annotations": {**written.annotations, PREFLIGHT_HASH: preflight_digest(preflight.parsed)},
        "ownerReferences": [owner_of(job)],
    }


def _pod_spec(preflight: Preflight) -> Json:
    parsed = preflight.parsed
    return {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": ACTIVE_DEADLINE_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "tolerations": tolerations_of(parsed),
        "affinity": affinity_to(preflight.machines),
        "containers": [_container(preflight)],
        "volumes": _volumes(preflight),
        **named(parsed),
    }


def _container(preflight: Preflight) -> Json:
    parsed, settings = preflight.parsed, preflight.settings
    return {
        "name": PREFLIGHT,
        "image": parsed.written.runtime.images.of(Role.TRAINER) or settings.images[Role.TRAINER],
        "imagePullPolicy": settings.pull_policy,
        "command": ["hetrl", "preflight", "--request", f"{REQUEST_DIRECTORY}/{REQUEST_FILE}"],
        "args": ["--report", "/dev/termination-log"],
        "env": environment(parsed, has_gpu=False),
        "resources": {
            "requests": {"cpu": "100m", "memory": "512Mi"},
            "limits": {"cpu": _CPU_LIMIT, "memory": _MEMORY_LIMIT},
        },
        "securityContext": container_security(),
        # A process that dies without a report shows its last log lines instead.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(parsed),
    }


def _mounts(parsed: ParsedSpec) -> list[Json]:
    ours: list[Json] = [
        {"name": "hetrl-preflight", "mountPath": REQUEST_DIRECTORY, "readOnly": True},
        {"name": "hetrl-tmp", "mountPath": "/tmp"},  # noqa: S108  # the pod's own emptyDir
    ]
    claims: list[Json] = [
        {"name": f"hetrl-claim-{number}", "mountPath": f"{CLAIMS_PATH}/{claim}", "readOnly": True}
        for number, claim in enumerate(claims_of(parsed))
    ]
    written = parsed.written.runtime.pod_template.volume_mounts
    return [*ours, *claims, *(users_mount(each) for each in written)]


def _volumes(preflight: Preflight) -> list[Json]:
    parsed = preflight.parsed
    ours: list[Json] = [
        {"name": "hetrl-preflight", "configMap": {"name": preflight_name(preflight.job)}},
        {"name": "hetrl-tmp", "emptyDir": {}},
    ]
    claims: list[Json] = [
        {"name": f"hetrl-claim-{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(claims_of(parsed))
    ]
    written = parsed.written.runtime.pod_template.volumes
    return [*ours, *claims, *(users_volume(each) for each in written)]
