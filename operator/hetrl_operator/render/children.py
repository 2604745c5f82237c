"""All objects of a job, in the order of their writes.

Every manifest has an annotation with its own digest, so that an unchanged object is not written
again.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from hetrl_core.launch import to_json
from hetrl_core.plan.pod_sets import PodSet, inference_tasks
from hetrl_core.task import Role
from hetrl_operator.model.actions import IssueCertificates, Manifest
from hetrl_operator.model.labels import (
    COMPONENT,
    FIELDS_HASH,
    IDENTITY,
    JOB_NAME,
    JOB_UID,
    PLAN_HASH,
    POD_SET,
    ROLE,
    SPEC_HASH,
    of_child,
)
from hetrl_operator.render.contract import LAUNCH_FILE, launch
from hetrl_operator.render.deployment import METRICS_PORT, Deployment, Json
from hetrl_operator.render.pod import pod_labels, pod_template
from hetrl_operator.render.tls import service_names


def children(deployment: Deployment) -> tuple[Manifest, ...]:
    """Return the Service, then the pod sets' ConfigMaps, then their StatefulSets."""
    contracts = {pods: to_json(launch(deployment, pods)) for pods in deployment.sets}
    made = (
        _service(deployment),
        *(_config_map(deployment, pods, text) for pods, text in contracts.items()),
        *(
            _stateful_set(deployment, pods, launch_hash=digest(text))
            for pods, text in contracts.items()
        ),
    )
    return tuple(_signed(each) for each in made)


def certificates(deployment: Deployment) -> IssueCertificates:
    """Return the order for the job's Secret."""
    names = service_names(deployment.service, deployment.job.namespace)
    return IssueCertificates(secret=deployment.secret, dns_names=names)


def identity(deployment: Deployment) -> str:
    """Return the digest of the names and roles that the certificates cover.

    A Secret of an earlier release has no certificate for inference workers, and no authority's key
    is kept to issue one. So a plan with such workers gets new certificates.
    """
    workers = [str(Role.INFERENCE)] if inference_tasks(deployment.sets) else []
    names = certificates(deployment).dns_names
    return digest(json.dumps([deployment.job.uid, *names, *workers]))


def digest(text: str) -> str:
    """Shorten a text to 16 hexadecimal digits: enough to tell versions of one object apart."""
    return sha256(text.encode()).hexdigest()[:16]


def _signed(manifest: dict[str, Any]) -> Manifest:
    annotations = manifest["metadata"]["annotations"]
    signed = {SPEC_HASH: digest(_text(manifest)), FIELDS_HASH: digest(_text(_fields(manifest)))}
    annotations.update(signed)
    return manifest


def _fields(value: Any) -> Any:
    """Return a manifest without its values, except in lists: values distinguish their items."""
    if isinstance(value, Mapping):
        return {name: _fields(each) for name, each in value.items()}
    return value if isinstance(value, list | tuple) else None


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _service(deployment: Deployment) -> dict[str, Any]:
    # Not ready pods too: workers must find each other to become ready.
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": deployment.metadata(
            deployment.service,
            labels=of_child(deployment.job.name, deployment.job.uid),
            annotations={IDENTITY: identity(deployment)},
        ),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB_NAME: deployment.job.name, JOB_UID: deployment.job.uid},
            # Of the pods' ports the one that all of them have; DNS names need no more.
            "ports": [{"name": "metrics", "port": METRICS_PORT, "protocol": "TCP"}],
        },
    }


def _config_map(deployment: Deployment, pods: PodSet, contract: str) -> dict[str, Any]:
    data = {LAUNCH_FILE: contract}
    if pods.role is Role.COORDINATOR:
        data["operator-ca.crt"] = deployment.settings.progress_authority
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": deployment.metadata(
            deployment.set_name(pods), labels=_labels(deployment, pods), annotations={}
        ),
        "data": data,
    }


def _stateful_set(deployment: Deployment, pods: PodSet, *, launch_hash: str) -> dict[str, Any]:
    selector: Json = {JOB_NAME: deployment.job.name, ROLE: pods.role, POD_SET: pods.name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": deployment.metadata(
            deployment.set_name(pods),
            labels=_labels(deployment, pods),
            annotations={PLAN_HASH: deployment.plan.key},
        ),
        "spec": {
            "serviceName": deployment.service,
            "replicas": pods.num_pods if pods.role in deployment.running else 0,
            "podManagementPolicy": "Parallel",
            # Trainers are replaced with their gang, workers only for what concerns them.
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": selector},
            "template": pod_template(deployment, pods, launch_hash=launch_hash),
        },
    }


def _labels(deployment: Deployment, pods: PodSet) -> dict[str, str]:
    return {**pod_labels(deployment, pods), COMPONENT: pods.role}
