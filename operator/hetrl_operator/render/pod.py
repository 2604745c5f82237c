"""The pod template of one pod set. It meets the restricted Pod Security Standard."""

from collections.abc import Iterable

from hetrl_api.job.runtime import Compute, EnvironmentVariable
from hetrl_core.plan.pod_sets import PodSet
from hetrl_core.task import Role
from hetrl_operator.model.labels import (
    COMPONENT,
    GANG_GATE,
    LAUNCH_HASH,
    PLAN_HASH,
    POD_SET,
    POOL,
    RESTART_HASH,
    ROLE,
    of_child,
)
from hetrl_operator.model.observed import ParsedSpec
from hetrl_operator.render.contract import LAUNCH_DIRECTORY, LAUNCH_FILE
from hetrl_operator.render.deployment import (
    COORDINATOR_PORT,
    INFERENCE_PORT,
    METRICS_PORT,
    MORE_METRICS,
    RENDEZVOUS_PORT,
    WEIGHTS_PORT,
    Deployment,
    Json,
)
from hetrl_operator.render.restart import image_role, restart_hash
from hetrl_operator.render.volumes import mounts, volumes

GPU_RESOURCE = "nvidia.com/gpu"
USER_ID = 65532
"""``nonroot`` of the distroless images, which the Dockerfiles use as well."""

GRACE_SECONDS = {Role.COORDINATOR: 30, Role.TRAINER: 180, Role.ROLLOUT: 30, Role.INFERENCE: 30}
"""From SIGTERM to SIGKILL. A trainer ends its step and writes a checkpoint meanwhile."""

_STARTUP_PERIOD_SECONDS = 2

_DEFAULT_COMPUTE = {
    Role.COORDINATOR: Compute(cpu="100m", memory="1Gi"),
    Role.TRAINER: Compute(cpu="500m"),
    Role.ROLLOUT: Compute(cpu="500m"),
    Role.INFERENCE: Compute(cpu="500m"),
}
"""Small requests: on a GPU machine nothing else competes for CPU, and the job may ask for more.
Only the coordinator, which may stand anywhere, has a memory limit."""

_PORTS = {
    Role.COORDINATOR: (("coordinator", COORDINATOR_PORT),),
    Role.TRAINER: (("weights", WEIGHTS_PORT), ("rendezvous", RENDEZVOUS_PORT)),
    Role.ROLLOUT: (),
    Role.INFERENCE: (("inference", INFERENCE_PORT),),
}


def pod_labels(deployment: Deployment, pods: PodSet) -> dict[str, str]:
    """Return the labels of a pod set and of its pods."""
    pool = {POOL: pods.gpu_kind} if pods.gpu_kind else {}
    return {
        **of_child(deployment.job.name, deployment.job.uid),
        COMPONENT: pods.role,
        ROLE: pods.role,
        POD_SET: pods.name,
        **pool,
    }


def pod_template(deployment: Deployment, pods: PodSet, *, launch_hash: str) -> Json:
    """Return the template of a pod set's pods."""
    written = deployment.parsed.written.runtime.pod_template
    annotations = {
        LAUNCH_HASH: launch_hash,
        PLAN_HASH: deployment.plan.key,
        RESTART_HASH: restart_hash(deployment, pods),
    }
    return {
        "metadata": {
            "labels": {**written.labels, **pod_labels(deployment, pods)},
            "annotations": {**written.annotations, **annotations},
        },
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            # As process 1 of its pod, one that still imports its libraries would not hear
            # SIGTERM, and hold its GPU for the whole grace.
            "shareProcessNamespace": True,
            "securityContext": pod_security(),
            "terminationGracePeriodSeconds": GRACE_SECONDS[pods.role],
            "schedulingGates": [{"name": GANG_GATE}],
            "tolerations": tolerations_of(deployment.parsed),
            "containers": [_container(deployment, pods)],
            "volumes": volumes(deployment, pods),
            **_affinity(pods),
            **named(deployment.parsed),
        },
    }


def named(parsed: ParsedSpec) -> Json:
    """Return the objects that a job's pods name: pull Secrets and a priority class."""
    written = parsed.written
    secrets = [{"name": name} for name in written.runtime.pod_template.image_pull_secrets]
    priority = written.scheduling.priority_class_name
    return {
        **({"imagePullSecrets": secrets} if secrets else {}),
        **({"priorityClassName": priority} if priority else {}),
    }


def pod_security() -> Json:
    """Return the security context of a pod that the restricted standard accepts."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Json:
    """Return the security context of a container of such a pod."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def _affinity(pods: PodSet) -> Json:
    machines = sorted({name for name in pods.machines if name})
    return {"affinity": affinity_to(machines)} if machines else {}


def affinity_to(machines: Iterable[str]) -> Json:
    """Name exactly these machines: a label could come to mean another machine."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        for name in machines
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def tolerations_of(parsed: ParsedSpec) -> list[Json]:
    """Return the taints that a job's pods tolerate."""
    gpu: Json = {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
    users: list[Json] = [
        each.model_dump(mode="json", by_alias=True, exclude_none=True)
        for each in parsed.written.runtime.pod_template.tolerations
    ]
    return [gpu, *users]


def _container(deployment: Deployment, pods: PodSet) -> Json:
    runtime = deployment.parsed.written.runtime
    role = image_role(pods)
    image = runtime.images.of(role) or deployment.settings.images[role]
    launch = f"{LAUNCH_DIRECTORY}/{LAUNCH_FILE}"
    ordinal = [] if pods.role is Role.COORDINATOR else ["--ordinal", "from-hostname"]
    return {
        "name": str(pods.role),
        "image": image,
        "imagePullPolicy": deployment.settings.pull_policy,
        "command": ["hetrl", str(pods.role), "--launch", launch, *ordinal],
        "env": environment(deployment.parsed, has_gpu=pods.role is not Role.COORDINATOR),
        "ports": _ports(pods),
        "resources": requests_of(deployment.parsed, pods),
        "securityContext": container_security(),
        # A process that dies without a word of its own shows its last log lines instead.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(deployment, pods),
        **_probes(deployment.parsed.written.startup_deadline_seconds),
    }


def environment(parsed: ParsedSpec, *, has_gpu: bool) -> list[Json]:
    """Return the environment variables of a job's container, the user's included."""
    field_paths = {"HETRL_POD_NAME": "metadata.name", "HETRL_NODE_NAME": "spec.nodeName"}
    # The root file system is read-only and user 65532 has no entry in /etc/passwd: caches
    # and everything that asks for a home or a user name would fail without these.
    fixed = {
        "HOME": "/tmp",  # noqa: S108  # the pod's own emptyDir
        "USER": "hetrl",
        "LOGNAME": "hetrl",
        "PYTHONUNBUFFERED": "1",
    }
    if not has_gpu:
        # GPU images ask for every GPU of the machine; a pod that requests none must not get it.
        fixed["NVIDIA_VISIBLE_DEVICES"] = "void"
    users = {each.name: _given(each) for each in parsed.written.runtime.pod_template.env}
    from_pod: list[Json] = [
        {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
        for name, path in field_paths.items()
    ]
    ours: dict[str, Json] = {name: {"value": value} for name, value in fixed.items()}
    given: list[Json] = [{"name": name, **value} for name, value in (ours | users).items()]
    return [*from_pod, *given]


def _given(variable: EnvironmentVariable) -> Json:
    if variable.value_from is None:
        return {"value": variable.value}
    key = variable.value_from.secret_key_ref
    return {"valueFrom": {"secretKeyRef": {"name": key.name, "key": key.key}}}


def _ports(pods: PodSet) -> list[Json]:
    named = (
        *(port for each in pods.programs for port in _PORTS[each]),
        ("metrics", METRICS_PORT),
        *(MORE_METRICS[each] for each in pods.programs[1:]),
    )
    return [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in named]


def requests_of(parsed: ParsedSpec, pods: PodSet) -> Json:
    """Return what one pod of a set requests, and its limits."""
    asked = getattr(parsed.written.runtime.pod_template.resources, pods.role)
    compute = asked or _DEFAULT_COMPUTE[pods.role]
    requests: dict[str, object] = {}
    limits: dict[str, object] = {}
    if compute.cpu:
        requests["cpu"] = compute.cpu
    if compute.memory:
        requests["memory"] = limits["memory"] = compute.memory
    if pods.gpus_per_pod:
        requests[GPU_RESOURCE] = limits[GPU_RESOURCE] = str(pods.gpus_per_pod)
    return {"requests": requests, **({"limits": limits} if limits else {})}


def _probes(startup_deadline_seconds: int) -> Json:
    """Ask the metrics server, which answers early, and says that it is ready once models are there.

    Meeting its peers and loading a checkpoint may take a trainer minutes before that, so liveness
    counts only after the first answer, and only catches a process that no longer answers at all.
    """
    started = {"httpGet": {"path": "/healthz", "port": "metrics", "scheme": "HTTP"}}
    return {
        "startupProbe": {
            **started,
            "periodSeconds": _STARTUP_PERIOD_SECONDS,
            "timeoutSeconds": 5,
            # The job's own deadline comes first, and says why.
            "failureThreshold": 2 + 2 * startup_deadline_seconds // _STARTUP_PERIOD_SECONDS,
        },
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "metrics", "scheme": "HTTP"},
            "periodSeconds": 2,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "livenessProbe": {
            **started,
            "periodSeconds": 15,
            "timeoutSeconds": 10,
            "failureThreshold": 8,
        },
    }
