"""Disturbed lives beside an undisturbed one: the end state, the creates, what is left behind."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2e.cluster.cluster import Cluster, control_plane
from e2e.faults.api import Api, eventually
from e2e.faults.fault import Category, Script, nothing
from e2e.faults.life import Life
from e2e.faults.operator import Operator
from e2e.faults.proxy import Answered, Proxy
from e2e.faults.snapshot import differences, snapshot
from e2e.faults.upstream import Upstream

USER = "hetrl-operator"
"""Whom the API server takes the operator for; its audit log names it."""

CONVERGE_SECONDS = 60.0
"""Until a state counts as final though it is not what it should be."""

_SPURIOUS = "Event"
"""Events may repeat after a crash: they are no state, and a repeated one beats a lost one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What one life came to."""

    states: dict[str, dict[str, str]]
    """A snapshot after each stage."""

    record: tuple[Answered, ...]
    creates: Counter[str]
    """By ``kind/name`` of what the operator wrote: how often the API server recreated it."""

    seconds: float
    exit_codes: tuple[int, ...] = ()
    """Of the operator, where it ended by itself."""

    deaths: int = 0

    @property
    def writes(self) -> list[Answered]:
        return [each for each in self.record if each.call.category is Category.WRITE]

    @property
    def num_faults(self) -> int:
        return sum(each.fault is not None for each in self.record)


@dataclass(slots=True, kw_only=True)
class Lane:
    """One operator behind one proxy, and nodes and a namespace that are its own."""

    cluster: Cluster
    number: int
    proxy: Proxy
    operator: Operator
    api: Api
    _undisturbed: Story | None = None
    stories: list[Story] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        return f"lane-{self.number}"

    def undisturbed(self) -> Story:
        """Return the life without a fault; it is run once."""
        if self._undisturbed is None:
            self._undisturbed = self.live(nothing)
        return self._undisturbed

    def live(self, script: Script, *, with_start: bool = False) -> Story:
        """Play one life under a script, each stage until all is as it would be undisturbed.

        Args:
            script: the faults of the operator's requests.
            with_start: whether the script also covers the operator's start with its lists.
        """
        eventually(self.operator.is_ready, what="the operator is ready")
        life = Life(api=self.api, namespace=self.namespace, pool=pool_of(self.number))
        deaths, codes = self.operator.num_deaths, len(self.operator.exit_codes)
        self.proxy.use(script)
        if with_start:
            self.operator.kill()
        started = time.monotonic()
        states = {}
        for name, play in life.stages().items():
            play()
            states[name] = self._settled(life, name)
        life.let_nodes_stay()
        record = tuple(self.proxy.record)
        self.proxy.use(nothing)
        return Story(
            states=states,
            record=record,
            creates=Counter(each.name for each in record if each.status == 201),
            seconds=time.monotonic() - started,
            exit_codes=tuple(self.operator.exit_codes[codes:]),
            deaths=self.operator.num_deaths - deaths,
        )

    def _settled(self, life: Life, stage: str) -> dict[str, str]:
        """Return the state that a stage ends in: as undisturbed, or after a long wait."""
        if self._undisturbed is None:
            life.rest()
            return snapshot(life.everything())
        expected, ends_at = self._undisturbed.states[stage], time.monotonic() + CONVERGE_SECONDS
        found = snapshot(life.everything())
        while found != expected and time.monotonic() < ends_at:
            time.sleep(0.1)
            found = snapshot(life.everything())
        return found

    def clear(self) -> None:
        """Leave nothing of a life that did not end by itself."""
        self.proxy.use(nothing)
        self.cluster.kubectl("delete", "-n", self.namespace, "hetrljobs", "--all")
        life = Life(api=self.api, namespace=self.namespace, pool=pool_of(self.number))
        eventually(
            lambda: not any(life.everything().values()), what="the last life is cleared away"
        )
        life.let_nodes_stay()


def violations(undisturbed: Story, disturbed: Story) -> list[str]:
    """Say what a disturbance changed that it must not change."""
    found = [
        f"after {stage}: {each}"
        for stage, state in undisturbed.states.items()
        for each in differences(state, disturbed.states[stage])
    ]
    for name, count in disturbed.creates.items():
        if not name.startswith(_SPURIOUS) and count > undisturbed.creates[name]:
            found.append(f"{name} was made {count} times, {undisturbed.creates[name]} undisturbed")
    return found


@contextmanager
def lane(cluster: Cluster, number: int, folder: Path) -> Iterator[Lane]:
    """Yield an operator behind a proxy, on nodes that `label_lanes` labelled for it."""
    assert cluster.state
    folder.mkdir(parents=True, exist_ok=True)
    user = cluster.kubeconfig_for(f"{USER}-{number}", groups=("system:masters",))
    proxy = Proxy(upstream=Upstream.of(user), kubeconfig=folder / "kubeconfig")
    api = Api(upstream=Upstream.of(control_plane(cluster.state).admin_kubeconfig))
    found = Lane(
        cluster=cluster,
        number=number,
        proxy=proxy,
        api=api,
        operator=Operator(
            kubeconfig=proxy.kubeconfig,
            log=folder / "operator.log",
            environment={
                "HETRL_WATCH_NAMESPACES": f"lane-{number}",
                "HETRL_WATCH_SILENCE_SECONDS": "5",
            },
        ),
    )
    cluster.apply(json.dumps(namespace_manifest(found.namespace)))
    proxy.kill = found.operator.kill
    proxy.start()
    try:
        found.operator.start()
        yield found
    finally:
        found.operator.stop()
        proxy.stop()


def label_lanes(cluster: Cluster, num_lanes: int) -> None:
    """Deal the nodes of each kind out to the lanes."""
    nodes = sorted(cluster.kubectl("get", "nodes", "--output=name").split())
    for index, node in enumerate(nodes):
        cluster.kubectl("label", node, f"hetrl.dev/lane={index % num_lanes}")


def pool_of(number: int) -> dict[str, object]:
    """Return the pool of a lane's nodes."""
    return {"name": "lane", "nodeSelector": {"hetrl.dev/lane": str(number)}}


def namespace_manifest(name: str) -> dict[str, object]:
    """Return a namespace that enforces the restricted Pod Security Standard."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
