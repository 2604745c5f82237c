"""Findings on the Kueue queue that a job names: whether it exists and admits jobs."""

from collections.abc import Iterator
from http import HTTPStatus

from hetrl_cli.cluster.connection import Object, Refused
from hetrl_cli.doctor.facts import Facts, JobFacts, Objects
from hetrl_cli.doctor.finding import Finding
from hetrl_cli.jobs.job_view import JobView
from hetrl_operator.model.kueue.api import QUEUE_LABEL
from hetrl_operator.model.reasons import ConditionType


def findings(facts: Facts) -> Iterator[Finding]:
    """Yield what is wrong with the queue of the job that was asked about."""
    job = facts.job
    name = job and (job.job["metadata"].get("labels") or {}).get(QUEUE_LABEL)
    if not job or not name:
        return
    if isinstance(job.queues, Refused):
        if job.queues.status == HTTPStatus.NOT_FOUND:
            yield _no_kueue(name)
        return
    yield from _queue(job, name, job.queues)
    yield from _operator(job, name)


def _no_kueue(name: str) -> Finding:
    return Finding(
        about="queue",
        said=f"the job's label names queue {name}, but the cluster has no Kueue: its "
        "queue cannot admit it",
        remedy=f"install Kueue and set kueue.enabled of the chart, or remove label {QUEUE_LABEL}",
    )


def _queue(job: JobFacts, name: str, there: Objects) -> Iterator[Finding]:
    queues = {each["metadata"]["name"]: each for each in there}
    if name not in queues:
        namespace = JobView(job.job).namespace
        others = f"there are {', '.join(sorted(queues))}" if queues else "there is none"
        yield Finding(
            about="queue",
            said=f"LocalQueue {name} does not exist in {namespace}; {others}",
            remedy=f"create it, or name another in the job's label {QUEUE_LABEL}",
        )
    elif trouble := _inactive(queues[name]):
        cluster_queue = queues[name]["spec"]["clusterQueue"]
        yield Finding(
            about="queue",
            said=f"LocalQueue {name} admits no jobs: {trouble}",
            remedy=f"kubectl describe clusterqueue {cluster_queue}: it must exist, be active, and "
            "have a flavor for every resource",
        )


def _inactive(queue: Object) -> str:
    """Return why a queue admits no jobs, in Kueue's words; empty if it does."""
    for each in queue.get("status", {}).get("conditions", ()):
        if each["type"] == "Active" and each["status"] == "False":
            return str(each.get("message") or each.get("reason"))
    return ""


def _operator(job: JobFacts, name: str) -> Iterator[Finding]:
    """Find pods that were created without admission: the operator then ignores queues."""
    view = JobView(job.job)
    created = view.condition(ConditionType.RESOURCES_CREATED)
    is_created = created is not None and created.get("status") == "True"
    if is_created and view.condition(ConditionType.QUOTA_RESERVED) is None:
        yield Finding(
            about="queue",
            said=f"the job runs though queue {name} never admitted it: the operator takes no "
            "notice of queues",
            remedy="helm upgrade hetrl charts/hetrl --reuse-values --set kueue.enabled=true",
        )
