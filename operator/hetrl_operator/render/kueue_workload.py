"""The Workload of a job: what its plan asks of a queue.

One pod set for each role on each GPU kind, so that Kueue counts each kind by its own flavor.
Whether and when it is written is left to ``decide.queueing``.
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
from hetrl_operator.model.kueue_api import API_VERSION, JOB_UID_LABEL, MOST_POD_SETS
from hetrl_operator.model.labels import SPEC_HASH, child_name, of_child
from hetrl_operator.model.observed import JobSeen, Wish
from hetrl_operator.render.deployment import owner_of
from hetrl_operator.render.pod import requests_of, tolerations_of

Labels = Mapping[str, Mapping[str, str]]
"""Of machines, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSet:
    """Pods that Kueue cannot tell apart, and how many of them a plan has."""

    name: str
    count: int
    template: Mapping[str, Any]
    digest: str
    """Of one of its pods: another digest is another quota."""


def flavor_keys(wish: Wish) -> frozenset[str]:
    """Return the node labels that flavors may be told apart by for a job."""
    pools = wish.written.resources.pools
    return frozenset({PRODUCT_LABEL, *(key for each in pools for key in each.node_selector)})


def asked_sets(wish: Wish, sets: Iterable[PodSet], labels: Labels) -> tuple[AskedSet, ...]:
    """Return what a plan asks of a queue.

    Args:
        wish: the job.
        sets: the pod sets of its plan.
        labels: of the plan's machines, those that flavors may be told apart by.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for pods in sets:
        for machine in pods.machines:
            template = _template(wish, pods, labels.get(machine, {}))
            stem = f"{pods.role}-{slug(pods.gpu_kind)}" if pods.gpu_kind else str(pods.role)
            counts[stem, json.dumps(template, sort_keys=True)] += 1
    found, numbers = [], Counter[str]()
    for (stem, text), count in sorted(counts.items()):
        name = f"{stem}-{numbers[stem]}" if numbers[stem] else stem
        numbers[stem] += 1
        digest = sha256(text.encode()).hexdigest()[:16]
        template = json.loads(text)
        template["metadata"] = {"annotations": {SPEC_HASH: digest}}
        found.append(AskedSet(name=name, count=count, template=template, digest=digest))
    return tuple(found)


def too_many(asked: tuple[AskedSet, ...]) -> str:
    """Say why no Workload can ask for this; empty where one can."""
    if len(asked) <= MOST_POD_SETS:
        return ""
    return (
        f"the plan has {len(asked)} kinds of pods ({', '.join(each.name for each in asked)}), and "
        f"a Workload of Kueue has at most {MOST_POD_SETS} pod sets: name fewer pools in "
        "spec.resources.pools"
    )


def workload_name(job: JobSeen) -> str:
    """Name the Workload of a job; a job that is made again has another."""
    return child_name(job.name, f"queue-{job.uid[:8]}")


def submission(job: JobSeen, wish: Wish, asked: tuple[AskedSet, ...]) -> SubmitWorkload:
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
                for each in asked
            ],
        },
    }
    return SubmitWorkload(manifest=manifest, priority=_priority(job, wish))


def _priority(job: JobSeen, wish: Wish) -> PriorityClass | None:
    """Return the class that orders the queue: Kueue's own by label, else that of the pods."""
    if job.queue_priority:
        return PriorityClass(name=job.queue_priority, is_kueues=True)
    pods = wish.written.scheduling.priority_class_name
    return PriorityClass(name=pods, is_kueues=False) if pods else None


def _template(wish: Wish, pods: PodSet, labels: Mapping[str, str]) -> dict[str, Any]:
    container = {"name": str(pods.role), "resources": requests_of(wish, pods)}
    return {
        "spec": {
            "containers": [container],
            "tolerations": tolerations_of(wish),
            **({"nodeSelector": dict(labels)} if labels else {}),
        }
    }
