"""Findings on one job: images, claims, its coordinator, disks, and the operator's conditions."""

from collections.abc import Iterator
from datetime import timedelta

from hetrl_api.job.planning import PlanningMode
from hetrl_cli.doctor.facts import Facts, JobFacts
from hetrl_cli.doctor.finding import Finding, Weight
from hetrl_cli.doctor.pods import (
    Pod,
    awaited_machine,
    disk_trouble,
    image_trouble,
    is_ready,
    name_of,
    others_trouble,
)
from hetrl_cli.jobs.job_view import JobView, moment, span
from hetrl_core.task import Role
from hetrl_operator.model.labels import ROLE
from hetrl_operator.model.reasons import ConditionType
from hetrl_operator.planning.full_machines import SETTLE_SECONDS

MOST_SILENCE = timedelta(seconds=60)
"""Coordinators report every few seconds."""


def findings(facts: Facts) -> Iterator[Finding]:
    """Yield what is wrong with the job that was asked about."""
    if facts.job is None:
        return
    view = JobView(facts.job.job)
    yield from _images(facts.job)
    yield from _sidecars(facts.job)
    yield from _room(facts.job, view)
    yield from _claims(facts, facts.job, view)
    yield from _disks(facts.job, view)
    yield from _coordinator(facts, facts.job, view)
    yield from _said(view)


def _images(job: JobFacts) -> Iterator[Finding]:
    for pod in job.pods:
        if trouble := image_trouble(pod):
            yield Finding(
                about="images",
                said=f"{name_of(pod)} has no image: {trouble}",
                remedy="set spec.runtime's images to some that nodes can pull, and a pull secret "
                "where the registry asks who they are",
            )


def _sidecars(job: JobFacts) -> Iterator[Finding]:
    for pod in job.pods:
        if trouble := others_trouble(pod):
            yield Finding(
                about="sidecars",
                said=f"{name_of(pod)} waits for containers that are not the job's: {trouble}",
                remedy="kubectl logs POD -c CONTAINER says what such a container lacks; the "
                "webhook that adds it can be made to skip the job's pods, by labels or "
                "annotations in spec.runtime.podTemplate".replace("POD", name_of(pod)),
            )


def _room(job: JobFacts, view: JobView) -> Iterator[Finding]:
    waiting: dict[tuple[str, str], list[str]] = {}
    for pod in job.pods:
        machine, words = awaited_machine(pod)
        if machine:
            waiting.setdefault((machine, words), []).append(name_of(pod))
    for (machine, words), names in sorted(waiting.items()):
        yield Finding(
            about="room",
            said=f"{machine} has no room for {', '.join(names)}: {words}",
            remedy=f"{_without(machine, view)}; kubectl get pods -A --field-selector "
            f"spec.nodeName={machine} lists what runs there",
        )


def _without(machine: str, view: JobView) -> str:
    """Say what the operator does about a machine without room."""
    if (view.job["spec"].get("planning") or {}).get("mode") == PlanningMode.MANUAL:
        return "spec.planning.mode Manual keeps the plan: make room, or name another plan"
    return (
        f"the operator plans the job without {machine} after {SETTLE_SECONDS:g} s or some more; "
        "where no other plan fits, the job waits until there is room"
    )


def _claims(facts: Facts, job: JobFacts, view: JobView) -> Iterator[Finding]:
    known = {claim["metadata"]["name"]: claim for claim in job.claims}
    has_default = any(
        (each["metadata"].get("annotations") or {}).get(
            "storageclass.kubernetes.io/is-default-class"
        )
        == "true"
        for each in facts.storage_classes or ()
    )
    for name in sorted(_named_claims(view)):
        claim = known.get(name)
        if claim is None:
            yield Finding(
                about="storage",
                said=f"claim {name} does not exist in {view.namespace}",
                remedy=f"create a PersistentVolumeClaim {name}",
            )
        elif claim.get("status", {}).get("phase") != "Bound":
            asked = claim["spec"].get("storageClassName")
            no_class = asked is None and facts.storage_classes is not None and not has_default
            yield Finding(
                about="storage",
                said=f"claim {name} is not bound: "
                + (
                    "the cluster has no default StorageClass, and it names none"
                    if no_class
                    else f"no volume of class {asked!r} fits it yet"
                ),
                remedy="name a class in spec.storageClassName of the claim (kubectl get "
                "storageclass lists them), or make a volume for it",
            )


def _named_claims(view: JobView) -> set[str]:
    spec = view.job["spec"]
    checkpoints = (spec.get("storage") or {}).get("checkpoints") or {}
    data = spec.get("data") or {}
    sources = [
        (spec.get("model") or {}).get("source"),
        data.get("prompts"),
        (data.get("python") or {}).get("source"),
    ]
    names = {(each.get("claim") or {}).get("name") for each in sources if each}
    return {str(each) for each in {*names, checkpoints.get("persistentVolumeClaim")} if each}


def _disks(job: JobFacts, view: JobView) -> Iterator[Finding]:
    said = {name_of(pod): trouble for pod in job.pods if (trouble := disk_trouble(pod))}
    failed = view.condition(ConditionType.FAILED) or {}
    if failed.get("status") == "True" and "No space left" in str(failed.get("message")):
        said[view.name] = str(failed["message"])
    for name, trouble in said.items():
        yield Finding(
            about="disks",
            said=f"{name} met a full disk: {trouble}",
            remedy="enlarge the claim of checkpoints, or keep fewer: "
            "spec.storage.checkpoints.keepLast; then resume or submit the job again",
        )


def _coordinator(facts: Facts, job: JobFacts, view: JobView) -> Iterator[Finding]:
    by_role: dict[str, list[Pod]] = {}
    for pod in job.pods:
        by_role.setdefault(pod["metadata"].get("labels", {}).get(ROLE, ""), []).append(pod)
    coordinators = by_role.pop(Role.COORDINATOR.value, [])
    others = [name_of(pod) for pods in by_role.values() for pod in pods]
    for pod in coordinators:
        if others and not is_ready(pod) and not image_trouble(pod):
            yield Finding(
                about="coordinator",
                said=f"{name_of(pod)} is not ready: the {len(others)} other pods cannot reach it",
                remedy=f"hetrl logs {view.name} --role coordinator, and kubectl describe pod "
                f"{name_of(pod)} say why",
            )
    reported = moment(view.progress.get("lastUpdateTime"))
    silent = facts.server_time - reported if reported else timedelta()
    if view.phase == "Running" and silent > MOST_SILENCE:
        yield Finding(
            about="coordinator",
            said=f"no progress was reported for {span(silent.total_seconds())}: the operator does "
            "not hear the coordinator, or nothing is made",
            remedy="see whether a NetworkPolicy forbids the coordinator's way to the operator's "
            f"Service; hetrl logs {view.name} --role coordinator says what it tries",
        )


def _said(view: JobView) -> Iterator[Finding]:
    if view.why:
        yield Finding(
            about="operator says",
            said=view.why,
            remedy=f"hetrl events {view.name} shows what led to this",
            weight=Weight.PROBLEM if view.phase == "Failed" else Weight.NOTE,
        )
