"""One job's life, played through the API: what its user asks, and what the kubelet would say.

Pods are kwok's: bound by the scheduler, running without running. Each stage ends when the job
shows the phase that the stage is about; whether all is as it must be is for others to ask.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from e2e.faults.api import OURS, PATHS, Api, Json, NotFoundError, eventually

JOB = "sums"
LEAVING = "hetrl.dev/leaving"
"""Of a node's annotations: it will soon be gone."""

QUIET_SECONDS = 3.0
"""Nothing has changed for so long: the operator has nothing more to do, or is slow to see it."""

STAGE_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A job in a namespace that it has for itself."""

    api: Api
    namespace: str
    pool: Json
    """Of spec.resources.pools: which nodes are this life's."""

    name: str = JOB

    def stages(self) -> dict[str, Callable[[], None]]:
        """Return what happens, in order."""
        return {
            "run": self.run,
            "scale": self.scale,
            "suspend": self.suspend,
            "resume": self.resume,
            "replan": self.replan,
            "finish": self.finish,
            "delete": self.delete,
        }

    def create(self) -> None:
        """Create the job, and wait for nothing."""
        self.api.create(self.path("hetrljobs"), a_job(self.name, self.pool))

    def run(self) -> None:
        """Create the job."""
        self.create()
        self.wait_for("Running")

    def scale(self) -> None:
        """Ask for one rollout replica, as ``kubectl scale`` does."""
        self.api.merge(f"{self._job_path}/scale", {"spec": {"replicas": 1}})
        self.wait_for("Running")

    def suspend(self) -> None:
        """Suspend the job."""
        self.api.merge(self._job_path, {"spec": {"suspend": True}})
        self.wait_for("Suspended")

    def resume(self) -> None:
        """Resume the job."""
        self.api.merge(self._job_path, {"spec": {"suspend": False}})
        self.wait_for("Running")

    def replan(self) -> None:
        """Announce that the node of a rollout will go, and wait until nothing stands on it."""
        node = self._pods("rollout")[-1]["spec"]["nodeName"]
        self._announce(node, "for repair")
        eventually(
            lambda: self._has_left(node), what=f"the job has left {node}", seconds=STAGE_SECONDS
        )
        self.wait_for("Running")

    def finish(self) -> None:
        """Let the coordinator's process end well, as after the last step."""
        name = f"{self.name}-coordinator-0"
        pod = self.api.get(f"{self.path('pods')}/{name}")
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ended = {"exitCode": 0, "finishedAt": at, "startedAt": at, "reason": "Completed"}
        statuses = [
            {**each, "state": {"terminated": ended}, "ready": False}
            if each["name"] == "coordinator"
            else each
            for each in pod["status"]["containerStatuses"]
        ]
        self.api.merge(
            f"{self.path('pods')}/{name}/status", {"status": {"containerStatuses": statuses}}
        )
        self.wait_for("Succeeded")

    def delete(self) -> None:
        """Delete the job, and wait until nothing of it is left."""
        self.api.delete(self._job_path)
        eventually(
            lambda: not any(self.objects(kind) for kind in PATHS),
            what="nothing is left of a deleted job",
            seconds=STAGE_SECONDS,
        )

    def let_nodes_stay(self) -> None:
        """Take back what was announced of nodes."""
        for node in self.api.get("/api/v1/nodes")["items"]:
            if LEAVING in node["metadata"].get("annotations", {}) and self._is_mine(node):
                self._announce(node["metadata"]["name"], None)

    def path(self, kind: str) -> str:
        """Return where objects of a kind are."""
        return PATHS[kind].format(self.namespace)

    def objects(self, kind: str) -> list[Json]:
        """Return the objects of the job; jobs carry no label."""
        selector = "" if kind == "hetrljobs" else f"?{OURS}"
        found: list[Json] = self.api.get(self.path(kind) + selector)["items"]
        return found

    def everything(self) -> dict[str, list[Json]]:
        """Return all objects by kind."""
        return {kind: self.objects(kind) for kind in PATHS}

    @property
    def _job_path(self) -> str:
        return f"{self.path('hetrljobs')}/{self.name}"

    def wait_for(self, phase: str) -> None:
        """Wait until the job shows a phase for its newest spec."""
        eventually(lambda: self._shows(phase), what=f"the job is {phase}", seconds=STAGE_SECONDS)

    def rest(self) -> None:
        """Wait until nothing has changed for a while."""
        before, since = self._versions(), time.monotonic()
        ends_at = since + STAGE_SECONDS
        while time.monotonic() - since < QUIET_SECONDS:
            time.sleep(0.1)
            now = self._versions()
            if now != before:
                before, since = now, time.monotonic()
            if time.monotonic() > ends_at:
                raise TimeoutError(f"something changes for ever: {sorted(now.items())}")

    def _pods(self, role: str) -> list[Json]:
        found = self.objects("pods")
        return [each for each in found if each["metadata"]["labels"]["hetrl.dev/role"] == role]

    def _announce(self, node: str, why: str | None) -> None:
        self.api.merge(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {LEAVING: why}}})

    def _is_mine(self, node: Json) -> bool:
        return bool(self.pool["nodeSelector"].items() <= node["metadata"]["labels"].items())

    def _has_left(self, node: str) -> bool:
        """Tell whether rollouts run, and neither they nor the trainer on a node."""
        placed = [*self._pods("rollout"), *self._pods("trainer")]
        nodes = {each["spec"].get("nodeName") for each in placed}
        return bool(self._pods("rollout")) and node not in nodes

    def _shows(self, phase: str) -> bool:
        try:
            job = self.api.get(self._job_path)
        except NotFoundError:
            return False
        status = job.get("status") or {}
        newest = status.get("observedGeneration") == job["metadata"]["generation"]
        return newest and status.get("phase") == phase

    def _versions(self) -> dict[str, str]:
        return {
            each["metadata"]["uid"]: each["metadata"]["resourceVersion"]
            for kind in PATHS
            for each in self.objects(kind)
        }


def a_job(name: str, pool: Json) -> Json:
    """Return a job of one trainer and some rollouts that is planned within moments."""
    architecture = {
        "hiddenSize": 128,
        "layers": 3,
        "queryHeads": 4,
        "kvHeads": 2,
        "headDim": 32,
        "ffnSize": 256,
        "vocabSize": 128,
        "tiedEmbeddings": True,
    }
    return {
        "apiVersion": "hetrl.dev/v1alpha1",
        "kind": "HetRLJob",
        "metadata": {"name": name},
        "spec": {
            "model": {"source": {"path": "/models/tiny"}, "architecture": architecture},
            "data": {
                "prompts": {"path": "/data/train.jsonl"},
                "maxPromptTokens": 16,
                "maxResponseTokens": 8,
            },
            "training": {"steps": 10},
            "resources": {"maxGPUs": 3, "pools": [pool]},
            "runtime": {"engine": "transformers"},
        },
    }
