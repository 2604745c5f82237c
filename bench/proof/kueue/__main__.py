"""``python -m bench.proof.kueue``: two jobs, one quota, the real Kueue; says each step and use.

Nodes are kwok's, so no step is trained here: what is proved is the protocol, and that quota comes
back each time.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from bench.proof.kueue.queues import manifests
from e2e.cluster.kueue import kueue_on, usage
from tests.controller.operator_process import (
    Namespace,
    OperatorProcess,
    a_job,
    cluster_with_crds,
    eventually,
    namespace_of,
)

FOLDER = Path("runs/proof-kueue").absolute()
_PLACE = {
    "planning": {"timeBudgetSeconds": 2},
    "resources": {
        "pools": [
            {"gpuProduct": "A100-80GB", "name": "a", "maxGPUs": 1},
            {"gpuProduct": "L4", "name": "l", "maxGPUs": 2},
        ]
    },
}


class Story:
    """One run of the proof, step by step."""

    def __init__(self, space: Namespace) -> None:
        """Begin the clock."""
        self._space = space
        self._started = time.monotonic()

    def submit(self, name: str, priority: str) -> None:
        """Create a job with the two labels that Kueue reads."""
        job: dict[str, Any] = a_job(name, **_PLACE)
        job["metadata"]["labels"] = {
            "kueue.x-k8s.io/queue-name": "team",
            "kueue.x-k8s.io/priority-class": priority,
        }
        self._space.apply(job)

    def reaches(self, name: str, phase: str, *, in_use: bool) -> None:
        """Wait until a job is in a phase and the queue counts as it should, and say both."""
        self._space.wait_for_phase(phase, name)
        # Kueue counts in the status of a ClusterQueue once a second.
        what = f"{phase}: quota is in use: {in_use}"
        eventually(lambda: bool(usage(self._space.cluster, "research")) == in_use, what=what)
        found = self._space.condition("QuotaReserved", name)
        said = f"{found.get('reason')}: {found.get('message', '')}"
        used = usage(self._space.cluster, "research")
        took = time.monotonic() - self._started
        print(f"{took:7.1f} s  {name} is {phase}  [{said}]\n{'':11}in use: {used or 'nothing'}")

    def gave_back(self, name: str) -> None:
        """Ask a job's Workload whether it still holds quota."""
        found = self._space.get("workloads", "-l", f"hetrl.dev/job-name={name}")["items"]
        (workload,) = found
        assert "admission" not in workload["status"], workload["status"]
        says = {each["type"]: each for each in workload["status"]["conditions"]}
        assert says["QuotaReserved"]["status"] == "False"
        print(f"{'':11}its Workload: Evicted for {says['Evicted']['reason']}, Requeued, no quota")

    def uses_nothing(self) -> None:
        """Wait until no quota is counted as used."""
        eventually(lambda: not usage(self._space.cluster, "research"), what="quota is returned")
        print(f"{time.monotonic() - self._started:7.1f} s  in use: nothing")

    def pods(self, name: str) -> int:
        """Count a job's pods."""
        return len(self._space.get("pods", "-l", f"hetrl.dev/job-name={name}")["items"])

    def finishes(self, operator: OperatorProcess, name: str) -> None:
        """Report the last step, as its coordinator does."""
        token = self._space.token_of(f"{name}-coordinator-0")
        report = {"step": "10", "total_steps": "10", "finished": True, "outcome": "Succeeded"}
        assert operator.post_progress(self._space.name, name, token, report) == 204


def main() -> None:
    """Tell the story; an assertion ends it where something does not hold."""
    with cluster_with_crds("kueue", num_nodes=6) as cluster, kueue_on(cluster, FOLDER):
        operator = OperatorProcess(cluster, FOLDER)
        operator.start(HETRL_KUEUE="true")
        try:
            with namespace_of(cluster, "research") as space:
                cluster.apply(manifests("research"))
                _tell(Story(space), operator, space)
        finally:
            operator.stop()


def _tell(story: Story, operator: OperatorProcess, space: Namespace) -> None:
    story.submit("daily", "everyday")
    story.reaches("daily", "Running", in_use=True)
    story.submit("nightly", "everyday")
    story.reaches("nightly", "Queued", in_use=True)
    assert story.pods("nightly") == 0
    space.cluster.kubectl("delete", "-n", space.name, "hetrljob", "nightly")

    story.submit("rush", "urgent")
    story.reaches("daily", "Queued", in_use=True)
    assert story.pods("daily") == 0
    story.gave_back("daily")
    story.reaches("rush", "Running", in_use=True)
    story.finishes(operator, "rush")
    story.reaches("rush", "Succeeded", in_use=True)
    story.reaches("daily", "Running", in_use=True)

    space.patch({"suspend": True}, "daily")
    story.reaches("daily", "Suspended", in_use=False)
    space.patch({"suspend": False}, "daily")
    story.reaches("daily", "Running", in_use=True)
    story.finishes(operator, "daily")
    story.reaches("daily", "Succeeded", in_use=False)

    story.submit("last", "everyday")
    story.reaches("last", "Running", in_use=True)
    space.cluster.kubectl("delete", "-n", space.name, "hetrljob", "last")
    story.uses_nothing()


if __name__ == "__main__":
    main()
