"""The operator as a process of its own against a real API server, and what tests ask of both."""

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import yaml

from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import CommandFailedError
from e2e.cluster.machines import evenly
from hetrl_cli.run.setup.ports import free_ports
from hetrl_operator.render import tls

CRDS = Path(__file__).parents[2] / "crds"
WAIT_SECONDS = 180.0
"""Generous: on a busy machine everything takes longer, and nothing should fail for that."""

Found = TypeVar("Found")


def free_port() -> int:
    """A port that nothing takes by chance before the operator does."""
    (port,) = free_ports(1)
    return port


def eventually(probe: Callable[[], Found], *, what: str, seconds: float = WAIT_SECONDS) -> Found:
    """Ask until the answer is true, and return it."""
    ends_at = time.monotonic() + seconds
    found = probe()
    while not found:
        assert time.monotonic() < ends_at, f"not within {seconds:g} s: {what}; last: {found!r}"
        time.sleep(0.2)
        found = probe()
    return found


@dataclass(slots=True)
class OperatorProcess:
    """Starts, stops and kills the operator."""

    cluster: Cluster
    folder: Path
    metrics_port: int = field(default_factory=free_port)
    progress_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "operator.log"

    def start(self, **variables: str) -> None:
        """Start it with some variables more, and wait until its watches run."""
        _write_certificates(self.folder)
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "HETRL_IMAGE_TRAINER": "hetrl/trainer:test",
            "HETRL_IMAGE_ROLLOUT": "hetrl/rollout:test",
            "HETRL_TLS_DIRECTORY": str(self.folder),
            "HETRL_PROGRESS_URL": f"https://localhost:{self.progress_port}",
            "HETRL_PROGRESS_PORT": str(self.progress_port),
            "HETRL_METRICS_PORT": str(self.metrics_port),
            **variables,
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "hetrl_operator"],
                env=environment,
                stdout=log,
                stderr=log,
            )
        eventually(self._is_ready, what="the operator is ready")

    def stop(self, how: int = signal.SIGTERM) -> int:
        """End it, and return its exit status."""
        assert self.process
        self.process.send_signal(how)
        status = self.process.wait(timeout=WAIT_SECONDS)
        self.process = None
        return status

    def planner_pid(self) -> int:
        """Return the one process that plans; there is one once something was planned."""
        assert self.process
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        (planner,) = (
            int(child)
            for thread in threads
            for child in (thread / "children").read_text().split()
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
        )
        return planner

    def metrics(self) -> str:
        """Return what Prometheus would scrape."""
        url = f"http://localhost:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=5) as reply:
            return str(reply.read().decode())

    def post_progress(self, namespace: str, job: str, token: str, report: dict[str, Any]) -> int:
        """Report as a coordinator does; return the HTTP status."""
        url = (
            f"https://localhost:{self.progress_port}/v1/namespaces/{namespace}"
            f"/hetrljobs/{job}/progress"
        )
        request = urllib.request.Request(
            url, data=json.dumps(report).encode(), headers={"Authorization": f"Bearer {token}"}
        )
        trust = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        try:
            with urllib.request.urlopen(request, timeout=10, context=trust) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def _is_ready(self) -> bool:
        assert self.process
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        try:
            url = f"http://localhost:{self.metrics_port}/readyz"
            with urllib.request.urlopen(url, timeout=2) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False


def _write_certificates(folder: Path) -> None:
    if (folder / "tls.crt").exists():
        return
    issued = tls.issue(seed=os.urandom(32), job="operator", dns_names=(), now=datetime.now(UTC))
    leaf = issued.leaves[0][1]
    (folder / "ca.crt").write_bytes(issued.authority)
    (folder / "tls.crt").write_bytes(leaf.certificate)
    (folder / "tls.key").write_bytes(leaf.key)


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace that enforces the restricted Pod Security Standard, and questions about it."""

    cluster: Cluster
    name: str

    def apply(self, manifest: dict[str, Any]) -> None:
        """Create or change an object."""
        text = yaml.safe_dump(manifest)
        self.cluster.kubectl("apply", "-n", self.name, "-f", "-", stdin=text)

    def get(self, *what: str) -> dict[str, Any]:
        """Return an object, or a list of them."""
        answer = self.cluster.kubectl("get", "-n", self.name, "-o", "json", *what)
        found: dict[str, Any] = json.loads(answer)
        return found

    def names(self, kind: str) -> list[str]:
        """Return the names of the objects of a kind that belong to a job."""
        items = self.get(kind, "-l", "hetrl.dev/job-name")["items"]
        return sorted(each["metadata"]["name"] for each in items)

    def job(self, name: str = "sums") -> dict[str, Any]:
        """Return a HetRLJob."""
        return self.get("hetrljob", name)

    def condition(self, type_: str, name: str = "sums") -> dict[str, Any]:
        """Return a condition of a job; empty where it is not there yet."""
        conditions = self.job(name).get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == type_), {})

    def phase(self, name: str = "sums") -> str:
        """Return the phase of a job."""
        return str(self.job(name).get("status", {}).get("phase", ""))

    def wait_for_phase(self, phase: str, name: str = "sums") -> None:
        """Wait until a job is in a phase."""
        eventually(lambda: self.phase(name) == phase, what=f"{name} is {phase}")

    def wait_for_reason(self, type_: str, reason: str, name: str = "sums") -> dict[str, Any]:
        """Wait until a condition has a reason, and return it."""

        def probe() -> dict[str, Any]:
            found = self.condition(type_, name)
            return found if found.get("reason") == reason else {}

        return eventually(probe, what=f"{name}: {type_} for {reason}")

    def patch(self, spec: dict[str, Any], name: str = "sums") -> None:
        """Change fields of a job's spec."""
        text = json.dumps({"spec": spec})
        self.cluster.kubectl("patch", "-n", self.name, "hetrljob", name, "--type=merge", "-p", text)

    def end_container(self, pod: str, *, exit_code: int, message: str) -> None:
        """Say, as the kubelet would, that a pod's container has ended."""
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        state = {
            "terminated": {
                "exitCode": exit_code,
                "message": message,
                "finishedAt": at,
                "startedAt": at,
                "reason": "Error",
            }
        }
        body = self.get("pod", pod)
        role = body["metadata"]["labels"]["hetrl.dev/role"]
        statuses = [
            {**each, "state": state, "ready": False} if each["name"] == role else each
            for each in body["status"]["containerStatuses"]
        ]
        text = json.dumps({"status": {"containerStatuses": statuses}})
        self.cluster.kubectl(
            "patch", "-n", self.name, "pod", pod, "--subresource=status", "--type=merge", "-p", text
        )

    def token_of(self, pod: str, *, audience: str = "hetrl-operator") -> str:
        """Return a token as it is projected into a pod."""
        uid = self.get("pod", pod)["metadata"]["uid"]
        return self.cluster.kubectl(
            "create",
            "token",
            "-n",
            self.name,
            "default",
            "--audience",
            audience,
            "--bound-object-kind",
            "Pod",
            "--bound-object-name",
            pod,
            "--bound-object-uid",
            uid,
        ).strip()

    def versions(self) -> dict[str, str]:
        """Return the resource versions of a job and of everything that was made for it."""
        kinds = "statefulsets,services,configmaps,pods,hetrlplans,hetrljobs"
        items = self.get(kinds)["items"]
        return {
            f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["resourceVersion"]
            for each in items
        }


@contextmanager
def cluster_with_crds(name: str, *, num_nodes: int) -> Iterator[Cluster]:
    """Run a cluster of kwok's nodes that knows our kinds."""
    with Cluster.start(name=f"{name}-{os.getpid()}", fake_nodes=evenly(num_nodes)) as found:
        found.add_kinds(CRDS)
        yield found


@contextmanager
def operator_on(cluster: Cluster, folder: Path) -> Iterator[OperatorProcess]:
    """Run the operator; it must end well, and nothing may have surprised it."""
    process = OperatorProcess(cluster, folder)
    # Less than in production, so that a search that hangs is not waited for long.
    process.start(HETRL_PLANNER_GRACE_SECONDS="10")
    yield process
    assert process.stop() == 0
    log = process.log.read_text()
    assert "Traceback" not in log, log[-5000:]


@contextmanager
def namespace_for(cluster: Cluster, test: str) -> Iterator[Namespace]:
    """Yield a new namespace that is named after a test."""
    name = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_"))[:50].strip("-")
    with namespace_of(cluster, name) as found:
        yield found


@contextmanager
def namespace_of(cluster: Cluster, name: str) -> Iterator[Namespace]:
    """Yield a new namespace; its jobs are deleted afterwards, so that their GPUs are free."""
    level = "pod-security.kubernetes.io/enforce"
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {level: "restricted"}},
    }
    cluster.apply(yaml.safe_dump(body))
    space = Namespace(cluster, name)
    eventually(lambda: _exists(space, "serviceaccount", "default"), what="the service account")
    try:
        yield space
    finally:
        cluster.kubectl("delete", "-n", name, "hetrljobs", "--all")
        eventually(lambda: not space.get("pods")["items"], what="the pods are gone")


def _exists(space: Namespace, kind: str, name: str) -> bool:
    try:
        space.get(kind, name)
    except CommandFailedError:
        return False
    return True


def a_job(name: str = "sums", **spec: Any) -> dict[str, Any]:
    """A small job for the fake nodes; keyword arguments replace fields of its spec."""
    return {
        "apiVersion": "hetrl.dev/v1alpha1",
        "kind": "HetRLJob",
        "metadata": {"name": name},
        "spec": {
            "model": {
                "source": {"path": "/models/tiny"},
                "architecture": {
                    "hiddenSize": 128,
                    "layers": 3,
                    "queryHeads": 4,
                    "kvHeads": 2,
                    "headDim": 32,
                    "ffnSize": 256,
                    "vocabSize": 128,
                    "tiedEmbeddings": True,
                },
            },
            "data": {
                "prompts": {"path": "/data/train.jsonl"},
                "maxPromptTokens": 16,
                "maxResponseTokens": 8,
            },
            "training": {"steps": 10},
            "resources": {"maxGPUs": 3},
            "runtime": {"engine": "transformers"},
            **spec,
        },
    }
