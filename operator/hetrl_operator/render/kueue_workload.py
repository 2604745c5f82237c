"""The Workload of a job: the pods that its plan requests of a queue.

It has a pod set for each role on each GPU kind, so that Kueue counts each kind in its own flavor.
``decide.kueue.queueing`` decides when it is written.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from hetrl_api.fleet.place import PRODUCT_LABEL
from hetrl_core.plan.pod_sets import PodSet, slug
from hetrl_operator.model.actions import PriorityClass, SubmitWorkload
from hetrl_operator.model.kueue.api import API_VERSION, JOB_UID_LABEL, MOST_POD_SETS
from hetrl_operator.model.labels import SPEC_HASH, child_name, of_child
from hetrl_operator.model.observed import JobSeen, ParsedSpec
from hetrl_operator.render.deployment import owner_of
from hetrl_operator.render.pod import requests_of, tolerations_of

Labels = Mapping[str, Mapping[str, str]]
"""Of machines, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedPodSet:
    """Equal pods for Kueue, and how many of them a plan has."""

    name: str
    count: int
    template: Mapping[str, Any]
    digest: str
    """Of one of its pods: another digest is another quota."""


def flavor_keys(parsed: ParsedSpec) -> frozenset[str]:
    """Return the node labels that may distinguish flavors for a job."""
    pools = parsed.written.resources.pools
    return frozenset({PRODUCT_LABEL, *(key for each in pools for key in each.node_selector)})


def requested_pod_sets(
    parsed: ParsedSpec, sets: Iterable[PodSet], labels: Labels
) -> tuple[RequestedPodSet, ...]:
    """Return the pod sets that a plan requests of a queue.

    Args:
        parsed: the job's spec.
        sets: the pod sets of its plan.
        labels: labels of the plan's machines that may distinguish flavors.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for pods in sets:
        for machine in pods.machines:
            template = _template(parsed, pods, labels.get(machine, {}))
            stem = f"{pods.role}-{slug(pods.gpu_kind)}" if pods.gpu_kind else str(pods.role)
            counts[stem, json.dumps(template, sort_keys=True)] += 1
    found, numbers = [], Counter[str]()
    for (stem, text), count in sorted(counts.items()):
        name = f"{stem}-{numbers[stem]}" if numbers[stem] else stem
        numbers[stem] += 1
        digest = sha256(text.encode()).hexdigest()[:16]
        template = json.loads(text)
        template["metadata"] = {"annotations": {SPEC_HASH: digest}}
        found.append(RequestedPodSet(name=name, count=count, template=template, digest=digest))
    return tuple(found)


def too_many(requested: tuple[RequestedPodSet, ...]) -> str:
    """Say why no Workload can ask for this; empty where one can."""
    if len(requested) <= MOST_POD_SETS:
        return ""
    return (
        f"the plan has {len(requested)} kinds of pods "
        f"({', '.join(each.name for each in requested)}), and a Workload of Kueue has at most "
        f"{MOST_POD_SETS} pod sets: name fewer pools in "
        "spec.resources.pools"
    )


def workload_name(job: JobSeen) -> str:
    """Name the Workload of a job; a job that is made again has another."""
    return child_name(job.name, f"queue-{job.uid[:8]}")


def submission(
    job: JobSeen, parsed: ParsedSpec, requested: tuple[RequestedPodSet, ...]
) -> SubmitWorkload:
    """Return the order for a job's Workload."""
    manifest = {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {
            "name": workload_name(job),
            "namespace": job.namespace,
            "labels": {**of_child(job.name, job.uid), JOB_UID_LABEL: job.uid},
            "ownerReferences": [owner_of(job)],
        },
        "spec": {
            "queueName": job.queue,
            "podSets": [
                {"name": each.name, "count": each.count, "template": each.template}
                for each in requested
            ],
        },
    }
    return SubmitWorkload(manifest=manifest, priority=_priority(job, parsed))


def _priority(job: JobSeen, parsed: ParsedSpec) -> PriorityClass | None:
    """Return the class that orders the queue: Kueue's own by label, else that of the pods."""
    if job.queue_priority:
        return PriorityClass(name=job.queue_priority, is_kueues=True)
    pods = parsed.written.scheduling.priority_class_name
    return PriorityClass(name=pods, is_kueues=False) if pods else None


def _template(parsed: ParsedSpec, pods: PodSet, labels: Mapping[str, str]) -> dict[str, Any]:
    container = {"name": str(pods.role), "resources": requests_of(parsed, pods)}
    return {
        "spec": {
            "containers": [container],
            "tolerations": tolerations_of(parsed),
            **({"nodeSelector": dict(labels)} if labels else {}),
        }
    }
