"""The volumes of a pod and where its container sees them."""

from hetrl_api.job.data import Data
from hetrl_api.job.runtime import Volume, VolumeMount
from hetrl_api.job.source import Source
from hetrl_api.job.to_core import CHECKPOINTS_PATH, CLAIMS_PATH
from hetrl_core.plan.pod_sets import PodSet
from hetrl_core.task import Role
from hetrl_operator.model.observed import ParsedSpec
from hetrl_operator.render.contract import (
    LAUNCH_DIRECTORY,
    LAUNCH_FILE,
    OPERATOR_DIRECTORY,
    STATE_DIRECTORY,
    TLS_DIRECTORY,
)
from hetrl_operator.render.deployment import Deployment, Json

TOKEN_AUDIENCE = "hetrl-operator"  # noqa: S105  # the audience that a token is for, not a token
_TOKEN_SECONDS = 3600
_OWNER_AND_GROUP = 0o440


def volumes(deployment: Deployment, pods: PodSet) -> list[Json]:
    """Return the volumes of a pod, ours first."""
    ours: list[Json] = [
        _launch(deployment, pods),
        _tls(deployment, pods.role),
        {"name": "hetrl-state", "emptyDir": {}},
        {"name": "hetrl-tmp", "emptyDir": {}},
        *_by_role(deployment, pods.role),
    ]
    claims: list[Json] = [
        {"name": f"hetrl-claim-{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(_source_claims(deployment, pods))
    ]
    written = deployment.parsed.written.runtime.pod_template.volumes
    return [*ours, *claims, *(users_volume(each) for each in written)]


def mounts(deployment: Deployment, pods: PodSet) -> list[Json]:
    """Return where the container of a pod sees its volumes."""
    ours: list[Json] = [
        {"name": "hetrl-launch", "mountPath": LAUNCH_DIRECTORY, "readOnly": True},
        {"name": "hetrl-tls", "mountPath": TLS_DIRECTORY, "readOnly": True},
        {"name": "hetrl-state", "mountPath": STATE_DIRECTORY},
        {"name": "hetrl-tmp", "mountPath": "/tmp"},  # noqa: S108  # the pod's own emptyDir
    ]
    if pods.role is Role.COORDINATOR:
        ours.append({"name": "hetrl-operator", "mountPath": OPERATOR_DIRECTORY, "readOnly": True})
    else:
        ours.append({"name": "hetrl-shm", "mountPath": "/dev/shm"})  # noqa: S108  # likewise
    if pods.role is Role.TRAINER:
        ours.append({"name": "hetrl-checkpoints", "mountPath": CHECKPOINTS_PATH})
    claims: list[Json] = [
        {"name": f"hetrl-claim-{number}", "mountPath": f"{CLAIMS_PATH}/{claim}", "readOnly": True}
        for number, claim in enumerate(_source_claims(deployment, pods))
    ]
    written = deployment.parsed.written.runtime.pod_template.volume_mounts
    return [*ours, *claims, *(users_mount(each) for each in written)]


def _source_claims(deployment: Deployment, pods: PodSet) -> tuple[str, ...]:
    written = deployment.parsed.written
    data = written.data
    sources: list[Source] = [written.model.source]
    if pods.role is not Role.INFERENCE:
        # What an inference worker is asked about comes over the wire.
        sources += [*_prompts(data), *_functions(data)]
    if Role.INFERENCE in pods.programs and data.model:
        sources.append(data.model.source)
    return tuple(dict.fromkeys(each.claim.name for each in sources if each.claim))


def claims_of(parsed: ParsedSpec) -> tuple[str, ...]:
    """Return the claims of a job's models, data and reward function."""
    written = parsed.written
    data = written.data
    sources: list[Source] = [written.model.source, *_prompts(data)]
    sources += [*_functions(data), *([data.model.source] if data.model else [])]
    return tuple(dict.fromkeys(each.claim.name for each in sources if each.claim))


def _prompts(data: Data) -> list[Source]:
    """Return where a job's data sets are."""
    return [each for each in (data.prompts, *(each.prompts for each in data.sets)) if each]


def _functions(data: Data) -> list[Source]:
    """Return the files of a job's reward functions."""
    codes = (data.python, *(each.python for each in data.rewards))
    return [each.source for each in codes if each]


def _launch(deployment: Deployment, pods: PodSet) -> Json:
    return {
        "name": "hetrl-launch",
        "configMap": {
            "name": deployment.set_name(pods),
            "items": [{"key": LAUNCH_FILE, "path": LAUNCH_FILE}],
        },
    }


def _tls(deployment: Deployment, role: Role) -> Json:
    """Return the role's own certificate; a pod never sees the keys of another role."""
    return {
        "name": "hetrl-tls",
        "secret": {
            "secretName": deployment.secret,
            "defaultMode": _OWNER_AND_GROUP,
            "items": [
                {"key": "ca.crt", "path": "ca.crt"},
                {"key": f"{role}.crt", "path": "tls.crt"},
                {"key": f"{role}.key", "path": "tls.key"},
            ],
        },
    }


def _by_role(deployment: Deployment, role: Role) -> list[Json]:
    if role is Role.COORDINATOR:
        return [_operator(deployment)]
    # Worker processes of PyTorch and vLLM share tensors there; the 64 MiB that a runtime
    # gives by default end in bus errors.
    shared: Json = {"name": "hetrl-shm", "emptyDir": {"medium": "Memory"}}
    if role is not Role.TRAINER:
        return [shared]
    claim = deployment.parsed.written.storage.checkpoints.persistent_volume_claim
    kept: Json = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
    return [shared, {"name": "hetrl-checkpoints", **kept}]


def _operator(deployment: Deployment) -> Json:
    """Return what the coordinator reports with: a token that only we accept, and our CA."""
    token: Json = {
        "serviceAccountToken": {
            "audience": TOKEN_AUDIENCE,
            "expirationSeconds": _TOKEN_SECONDS,
            "path": "token",
        }
    }
    coordinator = next(each for each in deployment.sets if each.role is Role.COORDINATOR)
    authority: Json = {
        "configMap": {
            "name": deployment.set_name(coordinator),
            "items": [{"key": "operator-ca.crt", "path": "ca.crt"}],
        }
    }
    return {
        "name": "hetrl-operator",
        "projected": {"defaultMode": _OWNER_AND_GROUP, "sources": [token, authority]},
    }


def users_volume(volume: Volume) -> Json:
    """Return a volume of the user's pod template."""
    written: Json = {"name": volume.name}
    if volume.persistent_volume_claim:
        written["persistentVolumeClaim"] = {
            "claimName": volume.persistent_volume_claim.claim_name,
            "readOnly": volume.persistent_volume_claim.read_only,
        }
    if volume.config_map:
        written["configMap"] = {"name": volume.config_map.name}
    if volume.empty_dir:
        written["emptyDir"] = {
            **({"medium": "Memory"} if volume.empty_dir.memory else {}),
            **({"sizeLimit": volume.empty_dir.size_limit} if volume.empty_dir.size_limit else {}),
        }
    return written


def users_mount(mount: VolumeMount) -> Json:
    """Return a mount of the user's pod template."""
    return {
        "name": mount.name,
        "mountPath": mount.mount_path,
        "readOnly": mount.read_only,
        **({"subPath": mount.sub_path} if mount.sub_path else {}),
    }
