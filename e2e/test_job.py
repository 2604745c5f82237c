"""A user's stories of one job, on real nodes that run real pods, through the chart.

Nothing here imports the operator or the runtime: only what a user has, `helm`, `kubectl` and
`hetrl`, and the files on the volumes.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import CommandFailedError
from e2e.release import SYSTEM, install
from e2e.rights import rights_of_the_operator
from e2e.tenant import EXAMPLES, Tenant, eventually, open_to_pods, the_example

pytestmark = [pytest.mark.cluster, pytest.mark.pods, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_release_is_tested_and_nothing_is_wrong(installed: Cluster, tenant: Tenant) -> None:
    assert "Succeeded" in installed.helm(
        "test", "hetrl", "--namespace", SYSTEM, "--logs", "--timeout=5m"
    )
    assert "problem" not in tenant.hetrl("doctor")


def test_example_completes_on_two_nodes_though_a_rollout_is_killed(
    tenant: Tenant,
) -> None:
    tenant.kubectl("apply", "-f", str(EXAMPLES / "arithmetic.yaml"))
    eventually(lambda: tenant.step() >= 1, what="a step is done")
    pods = tenant.pods()
    nodes = {name: pod["spec"]["nodeName"] for name, pod in pods.items()}
    assert {"a100-0", "l4-0"} <= set(nodes.values())

    killed = next(name for name in pods if "rollout" in name)
    tenant.kubectl("delete", "pod", killed, "--grace-period=0", "--force")

    def is_replaced() -> bool:
        now = tenant.pods().get(killed)
        return bool(now and now["metadata"]["uid"] != pods[killed]["metadata"]["uid"])

    eventually(is_replaced, what="another rollout pod")
    tenant.wait_for_phase("Succeeded")
    status = tenant.status()
    assert status["progress"]["step"] == 80
    assert status["progress"]["stalenessP95"] <= 2
    assert status["restarts"] == 0
    eventually(lambda: not tenant.pods(), what="the GPUs are free")
    tenant.kubectl("delete", "hetrljob", "arithmetic")
    eventually(lambda: tenant.children() == [], what="nothing of the job is left")


def test_job_outlives_an_upgrade_and_resumes_after_a_suspension(
    tenant: Tenant, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    open_to_pods(tmp_path, writable=True)
    tenant.claim("checkpoints", tmp_path)
    training = {**the_example()["spec"]["training"], "steps": 2000}
    storage = {"checkpoints": {"persistentVolumeClaim": "checkpoints"}}
    runtime = {"engine": "transformers", "transport": {"weights": "Nccl"}}
    tenant.create(the_example(training=training, storage=storage, runtime=runtime))
    eventually(lambda: tenant.step() >= 2, what="steps are done")
    # The other rollout is in another region, where weights go by gRPC whatever is asked.
    eventually(
        lambda: "readers=1" in tenant.hetrl("logs", "arithmetic", "--role=trainer"),
        what="weights are broadcast to the rollout of the trainer's region",
    )
    upgrade_and_roll_back(tenant, tmp_path_factory.mktemp("chart"))

    assert "Running" in tenant.hetrl("status")
    assert tenant.hetrl("suspend", "arithmetic") == "arithmetic suspended\n"
    tenant.wait_for_phase("Suspended")
    assert tenant.pods() == {}
    kept = max((tmp_path / "arithmetic").glob("step-*"))
    assert tenant.hetrl("resume", "arithmetic") == "arithmetic resumed\n"
    tenant.wait_for_phase("Running")

    step = int(kept.name.removeprefix("step-"))
    registered = f"role=trainer epoch=[0-9]+ version={step}\n"
    eventually(
        lambda: f"/arithmetic/{kept.name}" in tenant.hetrl("logs", "arithmetic", "--role=trainer"),
        what=f"the trainer resumes from {kept.name}",
    )
    eventually(
        lambda: re.search(registered, tenant.hetrl("logs", "arithmetic", "--role=coordinator")),
        what=f"the coordinator goes on at version {step}",
    )
    eventually(lambda: tenant.step() > step, what="the job goes on")


def upgrade_and_roll_back(tenant: Tenant, chart: Path) -> None:
    """Upgrade the operator and roll it back under a running job, whose pods stay."""
    before = tenant.uids()
    install(tenant.cluster, chart, {"workers": "16", "podLabels.upgraded": "yes"})
    assert tenant.uids() == before
    tenant.cluster.helm("rollback", "hetrl", "--namespace", SYSTEM, "--wait", "--timeout=5m")
    step = tenant.step()
    eventually(lambda: tenant.step() > step, what="the earlier operator gets reports of steps")
    assert tenant.uids() == before


def test_missing_model_fails_the_job_and_its_path_is_named(tenant: Tenant) -> None:
    model = the_example()["spec"]["model"]
    model["source"] = {"claim": {"name": "arithmetic", "path": "no-such-model"}}

    tenant.create(the_example(model=model))

    tenant.wait_for_phase("Failed")
    failed = tenant.condition("Failed")
    assert failed["reason"] == "ModelInvalid"
    assert "/hetrl/claims/arithmetic/no-such-model" in failed["message"]
    assert no_gpu_was_asked_for(tenant)


def no_gpu_was_asked_for(tenant: Tenant) -> bool:
    """Tell whether a job ended before it had more than the pod that checks it."""
    eventually(lambda: not tenant.pods(), what="the pod that checks the job is gone")
    return not any(each.startswith(("StatefulSet/", "HetRLPlan/")) for each in tenant.children())


def test_malformed_line_of_data_is_named_with_its_file(tenant: Tenant, tmp_path: Path) -> None:
    good = (tenant.arithmetic / "train.jsonl").read_text()
    (tmp_path / "bad.jsonl").write_text(good + '{"question": "1+1="}\n')
    open_to_pods(tmp_path)
    tenant.claim("bad", tmp_path)
    data = the_example()["spec"]["data"]
    data["prompts"] = {"claim": {"name": "bad", "path": "bad.jsonl"}}

    tenant.create(the_example(data=data))

    tenant.wait_for_phase("Failed")
    assert "bad.jsonl:3001" in tenant.condition("Failed")["message"]
    assert no_gpu_was_asked_for(tenant)


def test_wrong_fields_are_refused_with_field_value_and_limit(tenant: Tenant) -> None:
    job = the_example(algorithm={"maxStaleness": -1})

    with pytest.raises(CommandFailedError) as refusal:
        tenant.create(job)

    assert "spec.algorithm.maxStaleness" in str(refusal.value)
    assert "-1" in str(refusal.value)
    assert "greater than or equal to 0" in str(refusal.value)


def test_job_that_fits_nowhere_reports_it_without_pods(tenant: Tenant) -> None:
    tenant.kubectl("apply", "-f", str(EXAMPLES / "infeasible.yaml"))

    def infeasible() -> dict[str, Any]:
        found = tenant.condition("Planned", "infeasible")
        return found if found.get("reason") == "Infeasible" else {}

    planned = eventually(infeasible, what="the job is found infeasible")

    assert "GiB" in planned["message"]
    assert tenant.children() == []


def free_name(tenant: Tenant, kind: str, name: str) -> None:
    """Delete an object whose name a job needs, once the job reports it, and enqueue the job."""
    what = f"{kind} {name} exists already"
    eventually(
        lambda: what in tenant.condition("ResourcesCreated").get("message", ""), what="NameTaken"
    )
    tenant.kubectl("delete", kind, name)
    change = f"example.com/freed={kind}"
    tenant.kubectl("annotate", "hetrljob", "arithmetic", "--overwrite", change)


def test_operator_is_refused_nothing_and_uses_every_right(tenant: Tenant) -> None:
    """Read the audit log of the stories above, and of a job that changes until it is gone."""
    if not tenant.cluster.state:
        pytest.skip("an attached cluster's audit log is not ours to read")
    training = {**the_example()["spec"]["training"], "steps": 100_000}
    # The operator patches a Secret and a Service only where something of that name exists.
    tenant.kubectl("create", "secret", "generic", "arithmetic-identity", "--from-literal=a=b")
    tenant.kubectl("create", "service", "clusterip", "arithmetic", "--clusterip=None")
    tenant.create(
        the_example(
            training=training,
            ttlSecondsAfterFinished=0,
            resources={"pools": [{"name": "a100", "gpuProduct": "A100-80GB", "maxGPUs": 3}]},
        )
    )
    free_name(tenant, "Secret", "arithmetic-identity")
    free_name(tenant, "Service", "arithmetic")
    tenant.wait_for_phase("Running")
    assert tenant.rollouts() == {"a100-0"}

    pools = [
        {"name": "a100", "gpuProduct": "A100-80GB", "maxGPUs": 1},
        {"name": "l4", "gpuProduct": "L4", "maxGPUs": 2},
    ]
    tenant.change({"resources": {"pools": pools}})
    eventually(lambda: "l4-0" in tenant.rollouts(), what="a rollout on the other node")
    tenant.wait_for_phase("Running")
    tenant.change({"planning": {"historyLimit": 0}})
    eventually(lambda: len(tenant.get("hetrlplans")["items"]) == 1, what="the past plan is gone")
    tenant.change({"training": {"steps": 2}})
    eventually(lambda: tenant.get("hetrljobs")["items"] == [], what="the job is done and gone")

    found = rights_of_the_operator(tenant.cluster)

    assert found.refused == ()
    assert not found.unused
