"""A lane: a namespace, nodes of its own and one job, to which a sequence's steps are done."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_never

from e2e.cluster.machines import KINDS, NodePool
from e2e.faults.api import Api, Json, NotFoundError, eventually
from e2e.faults.life import JOB, Life, a_job
from e2e.faults.operator import Operator
from e2e.faults.sweep import label_lanes, namespace_manifest
from e2e.load.stage import stage
from e2e.sequences.steps import (
    NUM_NODES,
    Change,
    Cordon,
    DeleteChild,
    KillOperator,
    Label,
    Pause,
    Step,
    Suspend,
)

LANE_LABEL = "hetrl.dev/lane"
_SETTLED_SECONDS = 240.0
_RESTLESS = {"PlanDrift", "NodeLost", "RolloutBelowDesired", "InferenceBelowDesired"}
"""Reasons of Degraded that pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Where one sequence at a time is played."""

    number: int
    nodes: tuple[str, ...]
    api: Api
    operator: Operator
    """Of all lanes."""

    @property
    def life(self) -> Life:
        """The lane's job, and questions about it."""
        return Life(api=self.api, namespace=f"lane-{self.number}", pool=self.pool)

    @property
    def pool(self) -> Json:
        """Of spec.resources.pools."""
        return {"name": "lane", "nodeSelector": {LANE_LABEL: str(self.number)}}

    def play(self, steps: Sequence[Step]) -> None:
        """Create a job, do the steps, and undo what others than its user did."""
        job = a_job(JOB, self.pool)
        job["spec"]["failurePolicy"] = {"maxRestarts": 100}
        self.api.create(self.life.path("hetrljobs"), job)
        for step in steps:
            self.do(step)
        for node in range(len(self.nodes)):
            self.do(Cordon(node, is_on=False))
            self.do(Label(node, is_on=True))
        self.do(Suspend(is_on=False))

    def settle(self) -> dict[str, list[Json]]:
        """Wait until the job runs, or is known not to be able to, and nothing changes.

        Returns:
            Everything of it.
        """
        eventually(self.operator.is_ready, what="the operator is ready")
        what = "the job runs by its newest spec, or says that nothing can run it"
        ends_at = time.monotonic() + _SETTLED_SECONDS
        while True:
            eventually(self._is_settled, what=what, seconds=_SETTLED_SECONDS)
            self.life.rest()
            # Again: what was deleted last may have been missed only now.
            if self._is_settled():
                return self.life.everything()
            if time.monotonic() > ends_at:
                raise TimeoutError(f"for {_SETTLED_SECONDS:g} s it was not for long that {what}")

    def spec(self) -> Json:
        """Return the job's spec as it is."""
        found: Json = self.api.get(self._job)["spec"]
        return found

    def renew(self, spec: Json) -> None:
        """Delete the job, and create one with a spec in its place."""
        self.life.delete()
        body = {**a_job(JOB, self.pool), "spec": spec}
        self.api.create(self.life.path("hetrljobs"), body)

    def clear(self) -> None:
        """Leave nothing of a sequence that did not end well."""
        for kind in ("hetrljobs", "pods"):
            for each in self.life.objects(kind):
                name = each["metadata"]["name"]
                with suppress(NotFoundError, RuntimeError):
                    self.api.delete(f"{self.life.path(kind)}/{name}")
        eventually(lambda: not any(self.life.everything().values()), what="the lane is clear")

    def do(self, step: Step) -> None:
        """Do one step; the API server may refuse a change."""
        match step:
            case Change(field=name, value=value):
                with suppress(RuntimeError):
                    self.api.merge(self._job, {"spec": _nested(name, value)})
            case Suspend(is_on=is_on):
                self.api.merge(self._job, {"spec": {"suspend": is_on}})
            case DeleteChild(kind=kind, number=number):
                self._delete(kind, number)
            case KillOperator():
                self.operator.kill()
            case Cordon(node=node, is_on=is_on):
                self.api.merge(self._node(node), {"spec": {"unschedulable": is_on or None}})
            case Label(node=node, is_on=is_on):
                labels = {LANE_LABEL: str(self.number) if is_on else None}
                self.api.merge(self._node(node), {"metadata": {"labels": labels}})
            case Pause(seconds=seconds):
                time.sleep(seconds)
            case _:
                assert_never(step)

    def _delete(self, kind: str, number: int) -> None:
        found = self.life.objects(kind)
        if not found:
            return
        name = found[number % len(found)]["metadata"]["name"]
        with suppress(NotFoundError):
            self.api.delete(f"{self.life.path(kind)}/{name}")

    @property
    def _job(self) -> str:
        return f"{self.life.path('hetrljobs')}/{JOB}"

    def _node(self, number: int) -> str:
        return f"/api/v1/nodes/{self.nodes[number]}"

    def _is_settled(self) -> bool:
        return bool(self._runs()) or self._is_infeasible()

    def _runs(self) -> str:
        """Return the phase once all of the job's pods are as its spec wants them."""
        job = self.api.get(self._job)
        status = job.get("status") or {}
        why = [each["reason"] for each in status.get("conditions", ()) if each["status"] == "True"]
        is_newest = status.get("observedGeneration") == job["metadata"]["generation"]
        is_calm = not _RESTLESS & set(why)
        return "Running" if is_newest and status.get("phase") == "Running" and is_calm else ""

    def _is_infeasible(self) -> bool:
        job = self.api.get(self._job)
        seen = (job.get("status") or {}).get("observedGeneration")
        return bool(seen == job["metadata"]["generation"]) and is_infeasible(job)


def is_infeasible(job: Json) -> bool:
    """Tell whether a job says that no plan can be made for it."""
    found = (job.get("status") or {}).get("conditions", ())
    return any((each["type"], each["reason"]) == ("Planned", "Infeasible") for each in found)


def _nested(path: str, value: Any) -> Json:
    *outer, last = path.split(".")
    found: Json = {last: value}
    for name in reversed(outer):
        found = {name: found}
    return found


@contextmanager
def lanes(count: int, folder: Path) -> Iterator[tuple[Lane, ...]]:
    """Run a cluster with so many lanes, and one operator for all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    pools = (NodePool(name="fake-l4", machine=KINDS["l4"], count=NUM_NODES * count),)
    with stage(pools, folder) as on:
        label_lanes(on.cluster, count)
        names = sorted(on.cluster.kubectl("get", "nodes", "--output=name").split())
        nodes = [name.removeprefix("node/") for name in names]
        for number in range(count):
            on.cluster.apply(json.dumps(namespace_manifest(f"lane-{number}")))
        yield tuple(
            Lane(
                number=number,
                nodes=tuple(nodes[number::count]),
                api=Api(upstream=on.admin),
                operator=on.operator,
            )
            for number in range(count)
        )
