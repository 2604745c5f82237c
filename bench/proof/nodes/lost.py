"""The trainer's node is lost: all its processes are killed at once, and it says nothing more."""

from pathlib import Path

from bench.proof.nodes.jobs import a_job, goes_on_at, goes_on_with, newest_checkpoint
from bench.proof.nodes.timeline import Timeline
from e2e.cluster.nodes import lose_node
from e2e.tenant import Tenant, eventually

JOB = "moves"
_LOST_SECONDS = 10


def lost(tenant: Tenant, folder: Path) -> Timeline:
    """Tell it, from the first step to the steps after the loss."""
    timeline = Timeline("The trainer's node is lost")
    failures = {"nodeLostSeconds": _LOST_SECONDS}
    tenant.create(a_job(tenant, JOB, folder, steps=100_000, failurePolicy=failures))
    timeline.wait(lambda: newest_checkpoint(folder, JOB) >= 3, what="the job has made a checkpoint")

    before = tenant.pods()
    trainer = next(name for name in before if "-trainer-" in name)
    node = before[trainer]["spec"]["nodeName"]
    stay = {name for name, pod in before.items() if pod["spec"]["nodeName"] != node}
    assert any("-rollout-" in name for name in stay), before
    _lose(tenant, node)
    kept = newest_checkpoint(folder, JOB)
    went = sorted(set(before) - stay)
    timeline.say(f"{node} is dead, with {', '.join(went)}; the newest checkpoint is of step {kept}")

    timeline.wait(
        lambda: _is_elsewhere(tenant, trainer, node), what=f"{trainer} runs on another node"
    )
    timeline.wait(lambda: goes_on_at(tenant, JOB, kept), what=f"it goes on from step {kept}")
    timeline.wait(
        lambda: goes_on_with(tenant, JOB, kept), what=f"the coordinator leads on from {kept}"
    )
    now = tenant.pods()
    for name in stay:
        assert now[name]["metadata"]["uid"] == before[name]["metadata"]["uid"], name
    timeline.say(f"{', '.join(sorted(stay))} kept their UIDs")
    timeline.wait(lambda: tenant.step(JOB) > kept + 3, what=f"steps after {kept + 3} are done")
    tenant.kubectl("delete", "hetrljob", JOB)
    eventually(lambda: not tenant.pods(), what="the pods are gone")
    return timeline


def _lose(tenant: Tenant, node: str) -> None:
    assert tenant.cluster.state
    lose_node(tenant.cluster.state, node)


def _is_elsewhere(tenant: Tenant, pod: str, node: str) -> bool:
    found = tenant.pods().get(pod, {})
    phase, where = found.get("status", {}).get("phase"), found.get("spec", {}).get("nodeName")
    return phase == "Running" and where not in {None, node}
