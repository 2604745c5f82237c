"""The pods of one job: its StatefulSets make them, a scheduler binds them, kubelets run them."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from hetrl_operator.model.observed import PodSeen, Termination
from tests.controller.stateful_sets import StatefulSetController
from tests.controller.values import NOW


@dataclass(slots=True, kw_only=True)
class PodsModel:
    """The StatefulSets of a job, and their pods on machines."""

    now: datetime = NOW
    sets: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The StatefulSets by name, as they were applied."""

    pods: dict[str, PodSeen] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)
    """Machines on which the scheduler finds no room, and its words."""

    sets_do_nothing: bool = False
    """Whether pods stay whatever their StatefulSets say, as where a kubelet hangs."""

    controller: StatefulSetController = field(default_factory=StatefulSetController)

    def bind(self, name: str, hostname: str) -> None:
        """Let the scheduler bind a pod whose gate is gone, if its machine has room."""
        pod = self.pods[name]
        node = hostname or next(iter(pod.affinity_nodes), "any")
        if node in self.taken:
            self.pods[name] = replace(
                pod,
                is_gated=False,
                selected_hostname=node,
                unschedulable_since=self.now,
                waiting_reason="Unschedulable",
                waiting_message=self.taken[node],
                gpus=1,
            )
            return
        self.pods[name] = replace(
            pod, is_gated=False, scheduled_at=self.now, node=node, selected_hostname=hostname
        )

    def waiting(self) -> dict[str, list[PodSeen]]:
        """Return by machine the pods that wait for it."""
        found: dict[str, list[PodSeen]] = {}
        for pod in self.pods.values():
            if pod.unschedulable_since and not pod.node:
                found.setdefault(pod.selected_hostname, []).append(pod)
        return found

    def take(self, machine: str, words: str) -> None:
        """Let somebody else's pods fill a machine; the job's are evicted, and made again."""
        self.taken[machine] = words
        for pod in tuple(self.pods.values()):
            if pod.node == machine:
                self.kill(pod.name)

    def vacate(self, machine: str) -> None:
        """Let somebody else's pods leave a machine; the scheduler binds what waits for it."""
        del self.taken[machine]
        for pod in self.waiting().get(machine, ()):
            self.pods[pod.name] = replace(
                pod,
                node=machine,
                scheduled_at=self.now,
                unschedulable_since=None,
                waiting_reason="",
                waiting_message="",
            )

    def make_ready(self) -> None:
        """Let every pod that may run become ready."""
        for name, pod in self.pods.items():
            if pod.node:
                self.pods[name] = replace(pod, is_ready=True, waiting_reason="")

    def kill(self, name: str) -> None:
        """Lose a pod; its StatefulSet makes another."""
        del self.pods[name]
        self.sync()

    def crash(self, name: str, exit_code: int, message: str = "", *, reason: str = "Error") -> None:
        """Let a container end; the kubelet starts it again."""
        pod = self.pods[name]
        end = Termination(exit_code=exit_code, reason=reason, message=message, at=self.now)
        self.pods[name] = replace(pod, termination=end, restarts=pod.restarts + 1, is_ready=False)

    def pass_time(self, **units: float) -> None:
        """Let time pass without anything happening."""
        self.now += timedelta(**units)

    def sync(self) -> None:
        """Make the pods what the StatefulSets want."""
        if not self.sets_do_nothing:
            self.pods = self.controller.synced(self.sets, self.pods, now=self.now)
