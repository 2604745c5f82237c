"""Suspension and deletion of jobs on a real API server, with checkpoints first."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hetrl_operator.model.reasons import EventReason, Reason
from tests.controller.api_server import (
    COORDINATOR,
    ONLY_PLANNED,
    events,
    held_back,
    is_stopping,
    pod_of,
    start,
    tells,
)
from tests.controller.operator_process import Namespace, a_job, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


THEIRS = "example.com/theirs"
SMALL = {"planning": {"timeBudgetSeconds": 1}, "resources": {"maxGPUs": 2}}


def delete(space: Namespace, *names: str) -> None:
    names = names or ("sums",)
    space.cluster.kubectl("delete", "-n", space.name, "hetrljob", *names, "--wait=false")


def exported(space: Namespace, name: str, *, finalizers: list[str], **spec: Any) -> str:
    """Return a job as an export of the live object has it."""
    job: dict[str, Any] = a_job(name, **(spec or {"planning": ONLY_PLANNED}))
    job["metadata"] |= {"namespace": space.name, "finalizers": finalizers}
    return yaml.safe_dump(job)


def test_job_from_an_exported_manifest_is_gone_soon_after_deletion(
    space: Namespace, tmp_path: Path
) -> None:
    kubectl, ours = space.cluster.kubectl, ["hetrl.dev/release"]
    space.apply(a_job("applied-over", **SMALL))
    space.wait_for_phase("Running", "applied-over")
    kubectl("apply", "-f", "-", stdin=exported(space, "applied-over", finalizers=ours, **SMALL))
    kubectl("apply", "-f", "-", stdin=exported(space, "applied", finalizers=ours))
    server_side = exported(space, "server-side", finalizers=[THEIRS, *ours])
    kubectl("apply", "--server-side", "-f", "-", stdin=server_side)
    file = tmp_path / "job.yaml"
    file.write_text(exported(space, "submitted", finalizers=ours))
    subprocess.run(
        [Path(sys.executable).parent / "hetrl", "submit", "-f", file],
        check=True,
        capture_output=True,
        env=os.environ | {"KUBECONFIG": str(space.cluster.kubeconfig)},
    )
    names = ("applied-over", "applied", "server-side", "submitted")
    for name in names[1:]:
        space.wait_for_phase("Planned", name)

    delete(space, *names)

    def left() -> dict[str, list[str]]:
        items = [each["metadata"] for each in space.get("hetrljobs")["items"]]
        return {each["name"]: each["finalizers"] for each in items}

    eventually(lambda: left() == {"server-side": [THEIRS]}, what="only the finalizer of others")
    assert not space.get("pods")["items"]
    nothing = '{"metadata":{"finalizers":null}}'
    patch = ("patch", "-n", space.name, "hetrljob", "server-side", "--type=merge")
    kubectl(*patch, "-p", nothing)
    eventually(lambda: not space.get("hetrljobs")["items"], what="every job is gone")


def test_deleted_job_stops_its_trainers_first_and_then_goes(space: Namespace) -> None:
    start(space)
    trainer = pod_of(space, "trainer")
    assert space.job()["metadata"]["finalizers"] == ["hetrl.dev/release"]

    with held_back(space, trainer):
        delete(space)
        space.wait_for_reason("Running", Reason.DELETING)
        eventually(lambda: is_stopping(space, trainer), what="the trainer stops")
        assert not is_stopping(space, COORDINATOR)

    eventually(lambda: not space.get("hetrljobs")["items"], what="the job is gone")
    eventually(lambda: not space.get("pods")["items"], what="the pods are gone")


def test_finalizer_is_removed_at_the_deadline_whatever_is_left(space: Namespace) -> None:
    start(space, releaseDeadlineSeconds=4)
    trainer = pod_of(space, "trainer")

    with held_back(space, trainer):
        delete(space)

        eventually(lambda: not space.get("hetrljobs")["items"], what="the job is gone")
        assert trainer in tells(space, EventReason.RELEASE_FORCED)


def test_suspending_asks_for_a_checkpoint_before_anything_else_stops(space: Namespace) -> None:
    start(space)
    trainer = pod_of(space, "trainer")

    with held_back(space, trainer):
        space.patch({"suspend": True})
        assert space.wait_for_reason("Suspended", Reason.SUSPENDING)["status"] == "False"
        eventually(lambda: is_stopping(space, trainer), what="the trainer stops")
        assert not is_stopping(space, COORDINATOR)

    space.wait_for_reason("Suspended", Reason.SUSPENDED)
    assert space.condition("Planned")["reason"] == Reason.SUSPENDED
    eventually(
        lambda: not space.job()["metadata"].get("finalizers"), what="the job is held no more"
    )
    space.patch({"suspend": False})
    space.wait_for_phase("Running")
    assert space.condition("Suspended")["reason"] == Reason.RESUMED
    for each in (EventReason.CHECKPOINT_REQUESTED, EventReason.SUSPENDED, EventReason.RESUMED):
        assert len(events(space, each)) == 1, each
