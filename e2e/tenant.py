"""A user's namespace: their claims, their jobs, what they type and what they see of it."""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from e2e.cluster.cache import folder_of
from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import CommandFailedError

EXAMPLES = Path(__file__).parents[1] / "examples"
TINY = Path(__file__).parents[1] / "runtime" / "hetrl_runtime" / "tiny"
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


def open_to_pods(folder: Path, *, writable: bool = False) -> None:
    """Let the pods' user read a folder of this machine and all in it, or write there too."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777 if writable else path.stat().st_mode | 0o055)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace of one story, with the claims that its job uses."""

    cluster: Cluster
    name: str
    arithmetic: Path
    """A folder of this machine, which all nodes see, with a model and problems for it."""

    def claim(self, name: str, folder: Path) -> None:
        """Make a claim of a folder of this machine."""
        volume = f"{self.name}-{name}"
        common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        objects = [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": volume},
                "spec": {
                    **common,
                    "capacity": {"storage": "1Gi"},
                    "hostPath": {"path": str(folder)},
                    "claimRef": {"namespace": self.name, "name": name},
                },
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": self.name},
                "spec": {
                    **common,
                    "volumeName": volume,
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        ]
        self.cluster.apply(yaml.safe_dump_all(objects))

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return self.cluster.kubectl("-n", self.name, *arguments, stdin=stdin)

    def hetrl(self, *arguments: str) -> str:
        """Run the command line as a user of this namespace, and return what it prints."""
        done = subprocess.run(
            [Path(sys.executable).with_name("hetrl"), *arguments, "-n", self.name],
            check=False,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            env=os.environ | {"KUBECONFIG": str(self.cluster.kubeconfig)},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def create(self, job: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(job))

    def change(self, spec: dict[str, Any], job: str = "arithmetic") -> None:
        """Change fields of a job's spec."""
        patch = json.dumps({"spec": spec})
        self.kubectl("patch", "hetrljob", job, "--type=merge", "-p", patch)

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

    def pods_with_gpus(self) -> dict[str, dict[str, Any]]:
        others = ("-coordinator-", "-preflight")
        found = self.pods().items()
        return {name: pod for name, pod in found if not any(each in name for each in others)}

    def uids(self) -> dict[str, str]:
        return {name: str(pod["metadata"]["uid"]) for name, pod in self.pods().items()}

    def rollouts(self) -> set[str]:
        """Return the nodes on which rollouts stand."""
        pods = self.get("pods", "-l", "hetrl.dev/role=rollout")["items"]
        return {str(pod["spec"].get("nodeName")) for pod in pods}

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


@contextlib.contextmanager
def tenant_in(cluster: Cluster, name: str) -> Iterator[Tenant]:
    """Yield a namespace where only restricted pods may run; at the end its jobs are deleted."""
    level = "pod-security.kubernetes.io/enforce"
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {level: "restricted"}},
    }
    cluster.apply(yaml.safe_dump(body))
    found = Tenant(cluster, name, _arithmetic())
    found.claim("arithmetic", found.arithmetic)
    yield found
    found.kubectl("delete", "hetrljobs", "--all")
    eventually(lambda: not found.pods(), what="the pods are gone")


def the_example(**spec: Any) -> dict[str, Any]:
    """Return examples/arithmetic.yaml, with some fields of its spec replaced."""
    job: dict[str, Any] = yaml.safe_load((EXAMPLES / "arithmetic.yaml").read_text())
    job["spec"] |= spec
    return job


def _arithmetic() -> Path:
    """Return the folder, made once for the code that makes it."""
    digest = hashlib.sha256()
    for source in sorted(TINY.glob("*.py")):
        digest.update(source.read_bytes())
    return folder_of("volumes", f"arithmetic-{digest.hexdigest()[:16]}", _make_arithmetic)


def _make_arithmetic(folder: Path) -> None:
    hetrl = Path(sys.executable).with_name("hetrl")
    subprocess.run([hetrl, "make-model", str(folder / "model")], check=True)
    problems = str(folder / "train.jsonl")
    subprocess.run([hetrl, "make-data", problems, "--count", "3000"], check=True)
    # Pods run as user 65532, and a hostPath volume keeps the modes that it has.
    open_to_pods(folder)
