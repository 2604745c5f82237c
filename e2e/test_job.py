"""A user's stories of one job, on real nodes that run real pods, through the chart.

Nothing here imports the operator or the runtime: only what a user has, `helm`, `kubectl` and
`hetrl`, and the files on the volumes.
"""

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from e2e.cluster.cache import folder_of
from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import CommandFailedError
from e2e.cluster.images import IMAGES, build_images
from e2e.prometheus import prometheus

pytestmark = [pytest.mark.cluster, pytest.mark.pods, pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SYSTEM = "hetrl-system"
WAIT_SECONDS = 600.0
"""For a step of a story: pods start, load a model and train on two cores."""

Found = TypeVar("Found")


def eventually(probe: Callable[[], Found], *, what: str, seconds: float = WAIT_SECONDS) -> Found:
    """Ask until the answer is true, and return it."""
    ends_at = time.monotonic() + seconds
    found = probe()
    while not found:
        assert time.monotonic() < ends_at, f"not within {seconds:g} s: {what}; last: {found!r}"
        time.sleep(1.0)
        found = probe()
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if os.environ.get("KUBECONFIG"):
        yield Cluster.attach()
        return
    build_images()
    with Cluster.start(name=f"e2e-{os.getpid()}", nodes=("a100", "l4")) as found:
        yield found


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Cluster:
    """The cluster with HetRL in it, installed as a user does."""
    repository, _, tag = IMAGES["operator"].rpartition(":")
    settings = {
        "image.repository": repository,
        "image.tag": tag,
        "images.trainer": IMAGES["trainer"],
        "images.rollout": IMAGES["rollout"],
    }
    options = [f"--set={name}={value}" for name, value in settings.items()]
    cluster.helm(
        "upgrade", "--install", "hetrl", str(ROOT / "charts" / "hetrl"), "--namespace", SYSTEM,
        "--create-namespace", "--wait", "--timeout=5m", *options,
    )  # fmt: skip
    return cluster


@pytest.fixture(scope="module")
def arithmetic() -> Path:
    """A folder on this machine, which both nodes see, with a model and problems for it."""
    digest = hashlib.sha256()
    for source in sorted((ROOT / "runtime" / "hetrl_runtime" / "tiny").glob("*.py")):
        digest.update(source.read_bytes())
    return folder_of("volumes", f"arithmetic-{digest.hexdigest()[:16]}", make_arithmetic)


def make_arithmetic(folder: Path) -> None:
    hetrl = Path(sys.executable).with_name("hetrl")
    subprocess.run([hetrl, "make-model", str(folder / "model")], check=True)
    problems = str(folder / "train.jsonl")
    subprocess.run([hetrl, "make-data", problems, "--count", "3000"], check=True)
    # Pods run as user 65532, and a hostPath volume keeps the modes that it has.
    open_to_pods(folder)


def open_to_pods(folder: Path, *, writable: bool = False) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777 if writable else path.stat().st_mode | 0o055)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace of one story, with the claims that its job uses."""

    cluster: Cluster
    name: str
    arithmetic: Path

    def claim(self, name: str, folder: Path) -> None:
        """Make a claim of a folder of this machine."""
        volume = f"{self.name}-{name}"
        common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        objects = [
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
             "spec": {**common, "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder)},
                      "claimRef": {"namespace": self.name, "name": name}}},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
             "metadata": {"name": name, "namespace": self.name},
             "spec": {**common, "volumeName": volume,
                      "resources": {"requests": {"storage": "1Gi"}}}},
        ]  # fmt: skip
        self.cluster.apply(yaml.safe_dump_all(objects))

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return self.cluster.kubectl("-n", self.name, *arguments, stdin=stdin)

    def hetrl(self, *arguments: str) -> str:
        """Run the command line as a user of this namespace, and return what it prints."""
        done = subprocess.run(
            [Path(sys.executable).with_name("hetrl"), *arguments, "-n", self.name],
            check=False, capture_output=True, text=True, timeout=WAIT_SECONDS,
            env=os.environ | {"KUBECONFIG": str(self.cluster.kubeconfig)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def create(self, job: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(job))

    def get(self, *what: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", "-o", "json", *what))
        return found

    def status(self, job: str = "arithmetic") -> dict[str, Any]:
        return dict(self.get("hetrljob", job).get("status", {}))

    def wait_for_phase(self, phase: str, job: str = "arithmetic") -> None:
        def reached() -> bool:
            status = self.status(job)
            ended = status.get("phase") in {"Succeeded", "Failed"}
            assert not ended or status["phase"] == phase, self.what_happened(status)
            return bool(status.get("phase") == phase)

        try:
            eventually(reached, what=f"{job} is {phase}")
        except AssertionError as error:
            raise AssertionError(self.what_happened(self.status(job))) from error

    def condition(self, type_: str, job: str = "arithmetic") -> dict[str, Any]:
        conditions = self.status(job).get("conditions", [])
        return next((each for each in conditions if each["type"] == type_), {})

    def step(self, job: str = "arithmetic") -> int:
        return int(self.status(job).get("progress", {}).get("step", 0))

    def pods(self) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["name"]: each for each in self.get("pods")["items"]}

    def children(self) -> list[str]:
        kinds = "statefulsets,services,configmaps,secrets,hetrlplans,pods"
        found = self.get(kinds, "-l", "hetrl.dev/job-name")["items"]
        return sorted(f"{each['kind']}/{each['metadata']['name']}" for each in found)

    def what_happened(self, status: dict[str, Any]) -> str:
        """Say all that a person would look at."""
        parts = [yaml.safe_dump(status), self.kubectl("get", "pods", "-o", "wide")]
        for pod in self.pods():
            for extra in ([], ["--previous"]):
                try:
                    log = self.kubectl("logs", pod, "--tail=20", *extra)
                except CommandFailedError as error:
                    log = str(error)
                parts.append(f"== {pod} {' '.join(extra)}\n{log}")
        return "\n".join(parts)


@pytest.fixture
def tenant(
    installed: Cluster, arithmetic: Path, request: pytest.FixtureRequest
) -> Iterator[Tenant]:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:40].strip("-")
    level = "pod-security.kubernetes.io/enforce"
    body = {"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {level: "restricted"}}}  # fmt: skip
    installed.apply(yaml.safe_dump(body))
    found = Tenant(installed, name, arithmetic)
    found.claim("arithmetic", arithmetic)
    yield found
    found.kubectl("delete", "hetrljobs", "--all")
    eventually(lambda: not found.pods(), what="the pods are gone")


def the_example(**spec: Any) -> dict[str, Any]:
    """examples/arithmetic.yaml, with some fields of its spec replaced."""
    job: dict[str, Any] = yaml.safe_load((EXAMPLES / "arithmetic.yaml").read_text())
    job["spec"] |= spec
    return job


def test_the_release_is_tested_and_nothing_is_wrong(installed: Cluster, tenant: Tenant) -> None:
    assert "Succeeded" in installed.helm(
        "test", "hetrl", "--namespace", SYSTEM, "--logs", "--timeout=5m"
    )
    assert "problem" not in tenant.hetrl("doctor")


def test_the_example_runs_on_two_nodes_to_its_end_though_a_rollout_is_killed(
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


def test_a_suspended_job_goes_on_from_its_checkpoint_at_the_same_step(
    tenant: Tenant, tmp_path: Path
) -> None:
    open_to_pods(tmp_path, writable=True)
    tenant.claim("checkpoints", tmp_path)
    training = {**the_example()["spec"]["training"], "steps": 2000}
    storage = {"checkpoints": {"persistentVolumeClaim": "checkpoints"}}
    tenant.create(the_example(training=training, storage=storage))
    eventually(lambda: tenant.step() >= 2, what="steps are done")

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
        "$__rate_interval": "2m", "$namespace": namespace, "$hetrljob": "arithmetic", "$pod": ".*",
    }  # fmt: skip
    for name, value in chosen.items():
        query = query.replace(name, value)
    return query


def test_every_panel_of_every_dashboard_has_data(tenant: Tenant, tmp_path: Path) -> None:
    open_to_pods(tmp_path, writable=True)
    (tmp_path / "checkpoints").mkdir(mode=0o777)
    (tmp_path / "checkpoints").chmod(0o777)
    tenant.claim("checkpoints", tmp_path / "checkpoints")
    training = {**the_example()["spec"]["training"], "steps": 2000, "checkpointEverySteps": 3}
    chart = ROOT / "charts" / "hetrl"
    rendered = tenant.cluster.helm(
        "template", "hetrl", str(chart), "--namespace", SYSTEM,
        "--set=metrics.podMonitor.enabled=always",
    )  # fmt: skip
    objects = [each for each in yaml.safe_load_all(rendered) if each]
    monitors = [each for each in objects if each["kind"] == "PodMonitor"]
    assert len(monitors) == 2
    queries = {
        (path.stem, panel["title"], target["expr"]): asked(target["expr"], path.stem, tenant.name)
        for path in sorted((chart / "dashboards").glob("*.json"))
        for panel in json.loads(path.read_text())["panels"]
        for target in panel.get("targets", ())
    }

    storage = {"checkpoints": {"persistentVolumeClaim": "checkpoints"}}
    silent = dict(queries)

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
        tenant.create(the_example(training=training, storage=storage))
        eventually(lambda: tenant.step() >= 3, what="steps are done")
        with contextlib.suppress(AssertionError):
            eventually(are_all_heard, what="every query has had data", seconds=180)
        assert silent == {}


def test_a_missing_model_fails_the_job_and_its_path_is_named(tenant: Tenant) -> None:
    model = the_example()["spec"]["model"]
    model["source"] = {"claim": {"name": "arithmetic", "path": "no-such-model"}}

    tenant.create(the_example(model=model))

    tenant.wait_for_phase("Failed")
    failed = tenant.condition("Failed")
    assert "/hetrl/claims/arithmetic/no-such-model" in failed["message"]
    eventually(lambda: not tenant.pods(), what="the GPUs are free")


def test_a_malformed_line_of_data_is_named_with_its_file(tenant: Tenant, tmp_path: Path) -> None:
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


def test_a_job_that_fits_nowhere_says_so_and_makes_no_pods(tenant: Tenant) -> None:
    tenant.kubectl("apply", "-f", str(EXAMPLES / "infeasible.yaml"))

    def infeasible() -> dict[str, Any]:
        found = tenant.condition("Planned", "infeasible")
        return found if found.get("reason") == "Infeasible" else {}

    planned = eventually(infeasible, what="the job is found infeasible")

    assert "GiB" in planned["message"]
    assert tenant.children() == []


def test_a_job_generates_with_vllm(tenant: Tenant) -> None:
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
            runtime=runtime, training=training, resources={"pools": pools},
            rollout={"minReplicas": 1}, startupDeadlineSeconds=1200,
        )
    )  # fmt: skip

    tenant.wait_for_phase("Succeeded")
    assert tenant.status()["progress"]["step"] == 4
