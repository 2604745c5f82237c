"""The chart on a real API server: what installs, what stays, and what its account may do."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import CommandFailedError
from tests.api.objects import QWEN3_8B, a_job
from tests.chart.rendering import CHART, of_kind

pytestmark = pytest.mark.cluster

NAMESPACE = "hetrl-system"
DEADLINE_SECONDS = 120.0


def install(cluster: Cluster, *settings: str) -> None:
    cluster.helm(
        "upgrade",
        "--install",
        "hetrl",
        str(CHART),
        "--namespace",
        NAMESPACE,
        "--create-namespace",
        *(option for each in settings for option in ("--set-json", each)),
    )


@pytest.fixture(scope="module")
def installed() -> Iterator[Cluster]:
    """A cluster of this module's own: Helm takes no CRD that somebody else has applied."""
    if os.environ.get("KUBECONFIG"):
        pytest.skip("installs the chart, and so needs a cluster of its own")
    with Cluster.start(name=f"chart-{os.getpid()}") as cluster:
        install(cluster)
        yield cluster


def get(cluster: Cluster, *what: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.kubectl("get", *what, "-o", "json"))
    return found


def eventually(
    holds: Callable[[], bool], what: Callable[[], object], process: subprocess.Popen[str]
) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert process.poll() is None, f"the operator ended: {process.communicate()[0][-3000:]}"
        assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS} s: {what()}"
        time.sleep(0.2)


def test_upgrade_keeps_the_authority_that_running_jobs_trust(installed: Cluster) -> None:
    before = get(installed, "-n", NAMESPACE, "secret/hetrl-progress-tls")["data"]

    install(installed, "workers=4")

    assert get(installed, "-n", NAMESPACE, "secret/hetrl-progress-tls")["data"] == before


def test_uninstalling_leaves_the_jobs_to_the_next_release(installed: Cluster) -> None:
    installed.kubectl("wait", "--for=condition=Established", "crd/hetrljobs.hetrl.dev")
    installed.apply(yaml.safe_dump(a_job({"metadata.name": "kept"})))
    try:
        said = installed.helm("uninstall", "hetrl", "--namespace", NAMESPACE)

        assert "kept due to the resource policy" in said
        assert "hetrljobs.hetrl.dev" in said
        assert get(installed, "hrj/kept")["metadata"]["name"] == "kept"
    finally:
        installed.kubectl("delete", "hrj/kept")
        install(installed)


def test_operators_pod_is_admitted_where_the_restricted_standard_is_enforced(
    installed: Cluster,
) -> None:
    (deployment,) = of_kind("Deployment")
    template = deployment["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": template["spec"],
        "metadata": {**template["metadata"], "name": "candidate", "namespace": NAMESPACE},
    }
    enforce = "pod-security.kubernetes.io/enforce"
    installed.kubectl("label", "--overwrite", f"namespace/{NAMESPACE}", f"{enforce}=restricted")
    try:
        said = installed.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))
    finally:
        installed.kubectl("label", f"namespace/{NAMESPACE}", f"{enforce}-")

    assert "pod/candidate created" in said


@pytest.mark.parametrize(
    ("verb", "what", "may"),
    [
        ("watch", "nodes", True),
        ("create", "tokenreviews.authentication.k8s.io", True),
        ("patch", "hetrljobs.hetrl.dev/status", True),
        ("create", "secrets", True),
        ("get", "secrets", False),
        ("list", "secrets", False),
        ("patch", "hetrljobs.hetrl.dev", True),
        ("create", "hetrljobs.hetrl.dev", False),
        ("create", "pods", True),
        ("create", "pods/exec", False),
        ("patch", "nodes", False),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io", False),
        ("impersonate", "users", False),
    ],
)
def test_operators_account_may_do_what_it_needs_and_no_more(
    installed: Cluster, verb: str, what: str, may: bool
) -> None:
    resource, _, subresource = what.partition("/")
    options = [f"--subresource={subresource}"] if subresource else []
    try:
        answer = installed.kubectl(
            "auth",
            "can-i",
            verb,
            resource,
            *options,
            "--namespace",
            "default",
            f"--as=system:serviceaccount:{NAMESPACE}:hetrl",
        )
    except CommandFailedError:
        answer = "no"

    assert (answer.strip() == "yes") == may


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu-0", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
}
CAPACITY = {"nvidia.com/gpu": "8", "cpu": "64", "memory": "512Gi", "pods": "110"}


@contextlib.contextmanager
def operator_as(cluster: Cluster, account: str) -> Iterator[subprocess.Popen[str]]:
    """Run the operator with exactly the rights of a service account."""
    kubeconfig = cluster.service_account_kubeconfig(namespace=NAMESPACE, name=account)
    settings = {
        "KUBECONFIG": str(kubeconfig),
        "HETRL_METRICS_PORT": "0",
        "HETRL_IMAGE_TRAINER": "trainer",
        "HETRL_IMAGE_ROLLOUT": "rollout",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "hetrl_operator"],
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def conditions(cluster: Cluster, job: str) -> dict[str, str]:
    found = get(cluster, f"hrj/{job}").get("status", {}).get("conditions", ())
    return {each["type"]: f"{each['status']} {each['reason']}: {each['message']}" for each in found}


def gates(cluster: Cluster, job: str) -> list[object]:
    pods = get(cluster, "pods", "-l", f"hetrl.dev/job-name={job}")["items"]
    return [pod["spec"].get("schedulingGates") for pod in pods]


def test_operator_deploys_a_job_with_the_charts_rights_alone(installed: Cluster) -> None:
    if installed.state is None:
        pytest.skip("logs in as a service account, which needs a cluster of our own")
    installed.kubectl("wait", "--for=condition=Established", "crd/hetrljobs.hetrl.dev")
    installed.apply(yaml.safe_dump(NODE))
    installed.kubectl(
        "patch",
        "node/gpu-0",
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": {"capacity": CAPACITY, "allocatable": CAPACITY}}),
    )
    small = {**QWEN3_8B, "hiddenSize": 1024, "queryHeads": 16}
    job = a_job({"metadata.name": "deployed", "spec.model.architecture": small})
    installed.apply(yaml.safe_dump(job))

    def is_released() -> bool:
        found = gates(installed, "deployed")
        return bool(found) and not any(found)

    def is_gone() -> bool:
        # No kubelet is there to end the pods.
        installed.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
        return "deployed" not in installed.kubectl("get", "hrj", "--output=name")

    try:
        with operator_as(installed, "hetrl") as process:
            eventually(is_released, lambda: conditions(installed, "deployed"), process)
            now = conditions(installed, "deployed")
            installed.kubectl("delete", "hrj/deployed", "--wait=false")
            eventually(is_gone, lambda: conditions(installed, "deployed"), process)
    finally:
        installed.kubectl("delete", "node/gpu-0")

    assert now["Planned"].startswith("True PlanReady"), now
    assert now["ResourcesCreated"].startswith("True"), now
