"""A job loses its place in Kueue's queue to one of more weight, and goes on where it stopped."""

from pathlib import Path

from bench.proof.kueue.queues import manifests
from bench.proof.nodes.jobs import a_job, goes_on_at, goes_on_with, newest_checkpoint
from bench.proof.nodes.timeline import Timeline
from e2e.cluster.kueue import usage
from e2e.tenant import Tenant

_STEPS_OF_RUSH = 5


def preempted(tenant: Tenant, folder: Path) -> Timeline:
    """Tell it, from the queue to the second end."""
    timeline = Timeline("Kueue preempts a job")
    tenant.cluster.apply(manifests(tenant.name))
    _submit(tenant, "daily", "everyday", folder / "daily", steps=100_000)
    timeline.wait(lambda: _phase(tenant, "daily") == "Running", what="daily is admitted, and runs")
    timeline.say(_use(tenant))
    timeline.wait(
        lambda: newest_checkpoint(folder / "daily", "daily") >= 3, what="it has a checkpoint"
    )

    _submit(tenant, "rush", "urgent", folder / "rush", steps=_STEPS_OF_RUSH)
    timeline.wait(lambda: _phase(tenant, "daily") == "Queued", what="daily is queued again")
    kept = newest_checkpoint(folder / "daily", "daily")
    assert not [pod for pod in tenant.pods() if pod.startswith("daily-")]
    timeline.say(f"its pods are gone, its newest checkpoint is of step {kept}; {_use(tenant)}")
    tenant.wait_for_phase("Succeeded", "rush")
    timeline.say(f"rush has made its {_STEPS_OF_RUSH} steps and succeeded")

    timeline.wait(
        lambda: _phase(tenant, "daily") == "Running", what="daily is admitted again, and runs"
    )
    timeline.wait(lambda: goes_on_at(tenant, "daily", kept), what=f"it goes on from step {kept}")
    timeline.wait(
        lambda: goes_on_with(tenant, "daily", kept), what=f"the coordinator leads on from {kept}"
    )
    timeline.wait(lambda: tenant.step("daily") > kept, what=f"steps after {kept} are done")
    tenant.kubectl("delete", "hetrljob", "daily", "rush")
    timeline.wait(lambda: not usage(tenant.cluster, "research"), what="all quota is back")
    return timeline


def _submit(tenant: Tenant, name: str, weight: str, folder: Path, *, steps: int) -> None:
    job = a_job(tenant, name, folder, steps=steps)
    job["metadata"]["labels"] = {
        "kueue.x-k8s.io/queue-name": "team",
        "kueue.x-k8s.io/priority-class": weight,
    }
    tenant.create(job)


def _phase(tenant: Tenant, job: str) -> str:
    return str(tenant.status(job).get("phase"))


def _use(tenant: Tenant) -> str:
    found = usage(tenant.cluster, "research")
    return f"in use: {', '.join(f'{each} {amount}' for each, amount in found.items()) or 'nothing'}"
