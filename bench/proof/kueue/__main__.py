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
    "resources": {"pools": [{"gpuProduct": "A100-80GB", "name": "a", "maxGPUs": 1},
                            {"gpuProduct": "L4", "name": "l", "maxGPUs": 2}]},
}  # fmt: skip


class Story:
    """One run of the proof, told step by step."""

    def __init__(self, space: Namespace) -> None:
        """Begin the clock."""
        self._space = space
        self._started = time.monotonic()

    def submit(self, name: str, priority: str) -> None:
        """Create a job with the two labels that Kueue reads."""
        job: dict[str, Any] = a_job(name, **_PLACE)
        job["metadata"]["labels"] = {
            "kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/priority-class": priority,
        }  # fmt: skip
        self._space.apply(job)

    def reaches(self, name: str, phase: str) -> None:
        """Wait until a job is in a phase, and say what the queue counts then."""
        self._space.wait_for_phase(phase, name)
        found = self._space.condition("QuotaReserved", name)
        said = f"{found.get('reason')}: {found.get('message', '')}"
        used = usage(self._space.cluster, "research")
        took = time.monotonic() - self._started
        print(f"{took:7.1f} s  {name} is {phase}  [{said}]\n{'':11}in use: {used or 'nothing'}")

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
    story.reaches("daily", "Running")
    story.submit("nightly", "everyday")
    story.reaches("nightly", "Queued")
    assert story.pods("nightly") == 0
    space.cluster.kubectl("delete", "-n", space.name, "hetrljob", "nightly")

    story.submit("rush", "urgent")
    story.reaches("daily", "Queued")
    assert story.pods("daily") == 0
    story.reaches("rush", "Running")
    story.finishes(operator, "rush")
    story.reaches("rush", "Succeeded")
    story.reaches("daily", "Running")

    space.patch({"suspend": True}, "daily")
    story.reaches("daily", "Suspended")
    story.uses_nothing()
    space.patch({"suspend": False}, "daily")
    story.reaches("daily", "Running")
    story.finishes(operator, "daily")
    story.reaches("daily", "Succeeded")
    story.uses_nothing()

    story.submit("last", "everyday")
    story.reaches("last", "Running")
    space.cluster.kubectl("delete", "-n", space.name, "hetrljob", "last")
    story.uses_nothing()


if __name__ == "__main__":
    main()
