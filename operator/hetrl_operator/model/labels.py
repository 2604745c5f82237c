"""Every label and annotation that HetRL writes on Kubernetes objects, each with what it is for.

They live in one place, so that a dashboard, a selector and the code that writes them cannot drift
apart. What conditions and events say is left to ``reasons``.
"""

from hashlib import sha256
from typing import Final

FIELD_MANAGER: Final = "hetrl-operator"
"""Owner of the fields that we apply; also the value of ``app.kubernetes.io/managed-by``."""

GROUP: Final = "hetrl.dev"
API_VERSION: Final = "hetrl.dev/v1alpha1"

# Labels of every child.
NAME: Final = "app.kubernetes.io/name"
"""Always ``hetrl``."""

INSTANCE: Final = "app.kubernetes.io/instance"
"""The job's name, for tools that know only the recommended labels."""

COMPONENT: Final = "app.kubernetes.io/component"
"""The role, for the same tools."""

PART_OF: Final = "app.kubernetes.io/part-of"
"""Always ``hetrl``."""

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
"""The label that our watches select by; without it they would get every pod of the cluster."""

JOB_NAME: Final = "hetrl.dev/job-name"
"""The job that an object belongs to; with the namespace, the key of our queue."""

JOB_UID: Final = "hetrl.dev/job-uid"
"""Distinguishes a job's pods from those of an earlier job of the same name."""

ROLE: Final = "hetrl.dev/role"
"""``coordinator``, ``trainer``, ``rollout`` or ``inference``; part of the immutable selectors."""

POD_SET: Final = "hetrl.dev/pod-set"
"""The pod set's name within the job; part of the immutable selectors."""

POOL: Final = "hetrl.dev/pool"
"""The GPU kind of a pod, for dashboards."""

# Annotations.
SPEC_HASH: Final = "hetrl.dev/spec-hash"
"""Digest of the manifest as we rendered it; equal digests are not written again."""

FIELDS_HASH: Final = "hetrl.dev/fields-hash"
"""Digest of the field names of the manifest. Where it changes, fields may have been dropped, which
an object that was created by POST keeps unless its managed fields are changed first."""

PLAN_HASH: Final = "hetrl.dev/plan-hash"
"""The plan that a pod set follows from."""

LAUNCH_HASH: Final = "hetrl.dev/launch-hash"
"""Digest of the launch contract, on the pod template: another contract is another template."""

IDENTITY: Final = "hetrl.dev/identity"
"""On the Service: digest of what the job's certificates are issued for. Secrets are never read, so
this is how we know that they were issued."""

PLANNED_FOR: Final = "hetrl.dev/planned-for"
"""On a HetRLPlan: digest of the planning fields of the spec that it answers."""

PLAN_KEY: Final = "hetrl.dev/plan-key"
"""On a HetRLPlan: digest of everything that it was made from, the fleet included."""

LEFT_OUT: Final = "hetrl.dev/left-out"
"""On a HetRLPlan: the nodes that could not be planned with, and why; in words, for people."""

REPLACES: Final = "hetrl.dev/replaces"
"""On a HetRLPlan: the plan that it replaced while the job ran."""

REPLACES_BECAUSE: Final = "hetrl.dev/replaces-because"
"""On a HetRLPlan that replaced another: why, in words, for people."""

FLEET_HASH: Final = "hetrl.dev/fleet-hash"
"""On a HetRLPlan: digest of the machines, prices and links that it was made for. Plans of a release
that did not write it are kept while the fleet changes."""

ACTIVE_FOR: Final = "hetrl.dev/in-force"
"""On a HetRLPlan: the job that runs by it, or ran by it when it was suspended or ended. For people;
the job's status says which plan it follows."""

ANSWERED: Final = "hetrl.dev/answered"
"""On an archived plan: the former value of ``PLANNED_FOR``. Release v0.1.0 follows the newest plan
with that annotation and deletes the others, so only a job's active plan may have it."""

REPLACED_AT: Final = "hetrl.dev/replaced-at"
"""On an archived plan: since when the job does not follow it."""

REPLACED_BECAUSE: Final = "hetrl.dev/replaced-because"
"""On an archived plan: what replaced it, and why; in words, for people."""

PREFLIGHT: Final = "preflight"
"""Component of the pod that checks a job before it gets GPUs, and of its ConfigMap."""

PREFLIGHT_HASH: Final = "hetrl.dev/preflight-hash"
"""On that pod: digest of the fields that it checks."""

RESTART_HASH: Final = "hetrl.dev/restart-hash"
"""On the pod template: digest of the fields whose change replaces a pod. Pods of a release that did
not write it are kept."""

FINALIZER: Final = "hetrl.dev/release"
"""Finalizer of a job whose pods may hold GPUs: it stays until they have stopped, or until the
release deadline."""

LEADER_ADDRESS: Final = "hetrl.dev/leader-address"
"""On the Lease: where the leading replica takes reports of progress."""

GANG_GATE: Final = "hetrl.dev/gang"
"""Scheduling gate of every pod, removed when all pods of the job exist."""


_LONGEST_STATEFUL_SET_NAME = 52
"""``controller-revision-hash`` is the set's name and 11 characters more, in a label of 63."""


def child_name(job: str, suffix: str) -> str:
    """Name a child of a job: ``<job>-<suffix>``, shortened by a digest where that is too long."""
    name = f"{job}-{suffix}"
    if len(name) <= _LONGEST_STATEFUL_SET_NAME:
        return name
    digest = sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_STATEFUL_SET_NAME - 9].rstrip('-.')}-{digest}"


MOST_NAMESAKES = 12
"""Numbers for plans of a job with the same inputs: more than are ever kept."""


def plan_name(job: str, key: str, number: int = 1) -> str:
    """Name a job's plan after its inputs, with a number if an earlier plan has that name."""
    return child_name(job, key[:10] + (f"-{number}" if number > 1 else ""))


def is_plan_name(name: str, job: str, key: str) -> bool:
    """Tell whether a name is one that we give."""
    return any(name == plan_name(job, key, number) for number in range(1, MOST_NAMESAKES + 1))


def of_child(job: str, uid: str) -> dict[str, str]:
    """Return the labels that every child of a job carries."""
    return {
        NAME: "hetrl",
        INSTANCE: job,
        PART_OF: "hetrl",
        MANAGED_BY: FIELD_MANAGER,
        JOB_NAME: job,
        JOB_UID: uid,
    }
