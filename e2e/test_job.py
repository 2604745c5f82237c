"""A user's stories of one job, on real nodes that run real pods, through the chart.

Nothing here imports the operator or the runtime: only what a user has, `helm`, `kubectl` and
`hetrl`, and the files on the volumes.
"""

import contextlib
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import CommandFailedError
from e2e.cluster.images import build_images
from e2e.prometheus import prometheus
from e2e.release import CHART, SYSTEM, install
from e2e.rights import rights_of_the_operator
from e2e.tenant import EXAMPLES, Tenant, eventually, open_to_pods, tenant_in, the_example
from tests.dashboard.serving import dashboard
from tests.runtime.inference.models import save_reward_model

pytestmark = [pytest.mark.cluster, pytest.mark.pods, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if os.environ.get("KUBECONFIG"):
        yield Cluster.attach()
        return
    build_images()
    with Cluster.start(name=f"e2e-{os.getpid()}", nodes=("a100", "l4")) as found:
        yield found


@pytest.fixture(scope="module")
def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The cluster with HetRL in it."""
    install(cluster, tmp_path_factory.mktemp("chart"))
    return cluster


@pytest.fixture
def tenant(installed: Cluster, request: pytest.FixtureRequest) -> Iterator[Tenant]:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:40].strip("-")
    with tenant_in(installed, name) as found:
        yield found


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


def test_whole_job_runs_on_one_gpu(tenant: Tenant) -> None:
    job = yaml.safe_load((EXAMPLES / "arithmetic-one-gpu.yaml").read_text())
    job["spec"]["training"]["steps"] = 10
    tenant.create(job)

    name = job["metadata"]["name"]
    # Looked at before its steps, which may all be done by the time that the first is told.
    pods = eventually(tenant.pods_but_the_coordinator, what="a pod trains")
    ((trainer, pod),) = pods.items()
    assert "trainer" in trainer
    assert "metrics-rollout" in json.dumps(pod["spec"]["containers"][0]["ports"])
    tenant.wait_for_phase("Succeeded", name)
    status = tenant.status(name)
    assert status["progress"]["step"] == 10
    assert status["progress"]["stalenessP95"] == 0
    assert status["restarts"] == 0
    sets = {each for each in tenant.children() if each.startswith("StatefulSet/")}
    assert sets == {f"StatefulSet/{name}-coordinator", f"StatefulSet/{trainer.removesuffix('-0')}"}


def test_pods_outlive_an_upgrade_of_the_operator_and_its_rollback(
    tenant: Tenant, tmp_path: Path
) -> None:
    training = {**the_example()["spec"]["training"], "steps": 100_000}
    tenant.create(the_example(training=training))
    tenant.wait_for_phase("Running")
    before = tenant.uids()

    install(tenant.cluster, tmp_path, {"workers": "16", "podLabels.upgraded": "yes"})
    assert tenant.uids() == before
    tenant.cluster.helm("rollback", "hetrl", "--namespace", SYSTEM, "--wait", "--timeout=5m")
    done = tenant.step()
    eventually(lambda: tenant.step() > done, what="steps are told to the operator of before")
    assert tenant.uids() == before


def test_suspended_job_resumes_from_its_checkpoint_at_the_step(
    tenant: Tenant, tmp_path: Path
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


def asked(query: str, dashboard: str, tenant: str) -> str:
    """Put in what a reader of the dashboard would have chosen."""
    namespace = SYSTEM if dashboard == "operator" else tenant
    chosen = {
        "$__rate_interval": "2m",
        "$namespace": namespace,
        "$hetrljob": "arithmetic",
        "$pod": ".*",
    }
    for name, value in chosen.items():
        query = query.replace(name, value)
    return query


def queries_of_panels(namespace: str) -> dict[tuple[str, str, str], str]:
    """The queries of all dashboards for one namespace, by dashboard, panel and expression."""
    return {
        (path.stem, panel["title"], target["expr"]): asked(target["expr"], path.stem, namespace)
        for path in sorted((CHART / "dashboards").glob("*.json"))
        for panel in json.loads(path.read_text())["panels"]
        for target in panel.get("targets", ())
    }


def test_panels_of_every_dashboard_have_data(tenant: Tenant, tmp_path: Path) -> None:
    open_to_pods(tmp_path, writable=True)
    (tmp_path / "checkpoints").mkdir(mode=0o777)
    (tmp_path / "checkpoints").chmod(0o777)
    tenant.claim("checkpoints", tmp_path / "checkpoints")
    training = {**the_example()["spec"]["training"], "steps": 2000, "checkpointEverySteps": 3}
    # Rewards by a model, so that an inference worker is to be seen: in a pod of its own, or beside
    # another program.
    open_to_pods(save_reward_model(tmp_path / "judge"))
    tenant.claim("judge", tmp_path / "judge")
    judge = {"reward": "model", "model": {"source": {"claim": {"name": "judge"}}}}
    data = {**the_example()["spec"]["data"], **judge}
    pools = [
        {"name": "a100", "gpuProduct": "A100-80GB", "maxGPUs": 2},
        {"name": "l4", "gpuProduct": "L4", "maxGPUs": 2},
    ]
    rendered = tenant.cluster.helm(
        "template",
        "hetrl",
        str(CHART),
        "--namespace",
        SYSTEM,
        "--set=metrics.podMonitor.enabled=always",
    )
    objects = [each for each in yaml.safe_load_all(rendered) if each]
    monitors = [each for each in objects if each["kind"] == "PodMonitor"]
    assert len(monitors) == 2
    storage = {"checkpoints": {"persistentVolumeClaim": "checkpoints"}}
    silent = queries_of_panels(tenant.name)

    with prometheus(tenant.cluster, monitors, tmp_path) as scraping:

        def is_scraped() -> bool:
            scraping.discover()
            return bool(scraping.ask("hetrl_operator_leader == 1"))

        def are_all_heard() -> bool:
            scraping.discover()
            for panel in [each for each, query in silent.items() if scraping.ask(query)]:
                del silent[panel]
            return not silent

        # Before the job: a plan and a start are seen as what was added to counters.
        eventually(is_scraped, what="the operator is scraped")
        tenant.create(
            the_example(training=training, storage=storage, data=data, resources={"pools": pools})
        )
        eventually(lambda: tenant.step() >= 3, what="steps are done")
        with contextlib.suppress(AssertionError):
            eventually(are_all_heard, what="every query has had data", seconds=180)
        assert silent == {}
    watching = ("--job=arithmetic", f"--namespace={tenant.name}", str(tmp_path / "watched"))
    with dashboard(*watching, kubeconfig=tenant.cluster.kubeconfig) as address:
        eventually(lambda: is_rewarded(address), what="a curve of the reward, without Prometheus")


def is_rewarded(address: str) -> bool:
    """Ask a dashboard for the reward of the one job that it shows."""
    with urllib.request.urlopen(f"{address}/api/choices?board=job", timeout=60) as reply:
        (choice,) = json.load(reply) or [{}]
    asked = urllib.parse.urlencode({"board": "job", "seconds": "all", **choice})
    try:
        with urllib.request.urlopen(f"{address}/api/figures?{asked}", timeout=60) as reply:
            lines = json.load(reply)["panels"]["Reward over time"]["lines"]
    except urllib.error.HTTPError:
        return False  # Nothing is recorded yet.
    return any(value is not None for line in lines for value in line["values"])


def test_missing_model_fails_the_job_and_its_path_is_named(tenant: Tenant) -> None:
    model = the_example()["spec"]["model"]
    model["source"] = {"claim": {"name": "arithmetic", "path": "no-such-model"}}

    tenant.create(the_example(model=model))

    tenant.wait_for_phase("Failed")
    failed = tenant.condition("Failed")
    assert "/hetrl/claims/arithmetic/no-such-model" in failed["message"]
    eventually(lambda: not tenant.pods(), what="the GPUs are free")


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


def test_job_generates_with_vllm(tenant: Tenant) -> None:
    runtime = {
        "engine": "vllm",
        "podTemplate": {
            "env": [
                {"name": "VLLM_CPU_KVCACHE_SPACE", "value": "1"},
                {"name": "VLLM_CPU_OMP_THREADS_BIND", "value": "nobind"},
                {"name": "HF_HUB_OFFLINE", "value": "1"},
                # The CPU image has no C++ compiler, which torch.compile would ask for.
                {"name": "TORCHDYNAMO_DISABLE", "value": "1"},
            ]
        },
    }
    pools = [
        {"name": "a100", "gpuProduct": "A100-80GB", "maxGPUs": 1},
        {"name": "l4", "gpuProduct": "L4", "maxGPUs": 1},
    ]
    training = {**the_example()["spec"]["training"], "steps": 4}

    tenant.create(
        the_example(
            runtime=runtime,
            training=training,
            resources={"pools": pools},
            rollout={"minReplicas": 1},
            startupDeadlineSeconds=1200,
        )
    )

    tenant.wait_for_phase("Succeeded")
    assert tenant.status()["progress"]["step"] == 4


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
    """Asked after the stories before, and one of a job that others change until it is gone."""
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
