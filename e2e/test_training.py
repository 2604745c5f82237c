"""Stories of what a job trains with: one GPU, a reward model under all dashboards, vLLM.

As in ``test_job``, nothing here imports the operator or the runtime.
"""

import contextlib
import json
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml

from e2e.prometheus import prometheus
from e2e.release import CHART, SYSTEM
from e2e.tenant import EXAMPLES, Tenant, eventually, open_to_pods, the_example
from tests.dashboard.serving import dashboard
from tests.runtime.inference.models import save_reward_model

pytestmark = [pytest.mark.cluster, pytest.mark.pods, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_whole_job_runs_on_one_gpu(tenant: Tenant) -> None:
    job = yaml.safe_load((EXAMPLES / "arithmetic-one-gpu.yaml").read_text())
    job["spec"]["training"]["steps"] = 10
    # The pod that checks the job reads the model's dimensions from its claim.
    del job["spec"]["model"]["architecture"]
    tenant.create(job)

    name = job["metadata"]["name"]
    # Before the first step is reported: all steps may be done by then.
    pods = eventually(tenant.pods_with_gpus, what="a pod trains")
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
    # Two of them: the parts of a sum have a panel of their own.
    rewards = [{"name": "judge", "reward": "model"}, {"name": "right", "reward": "exact"}]
    data = {
        **{name: each for name, each in the_example()["spec"]["data"].items() if name != "reward"},
        "rewards": rewards,
        "model": {"source": {"claim": {"name": "judge"}}},
    }
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
