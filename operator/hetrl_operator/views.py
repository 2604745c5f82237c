"""The cluster as the watches show it, with our own latest writes laid over.

Holds values, not objects; filled by kopf's indexes, read once a round.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hetrl_api.topology import HetRLTopology
from hetrl_operator.observe import Body, JobKey, lost_since
from hetrl_operator.observed import ChildSeen, JobSeen, PlanSeen, PodSeen
from hetrl_operator.recent import RecentWrites

Index = Mapping[Any, Iterable[Any]]
"""A kopf index: values by key, live."""

HOSTNAME_LABEL = "kubernetes.io/hostname"
CHILD_KINDS = ("StatefulSet", "Service", "ConfigMap")


@dataclass(slots=True)
class Views:
    """Live indexes, and the writes that they do not show yet."""

    jobs: Index
    plans: Index
    pods: Index
    children: Mapping[str, Index]
    """By kind."""

    node_index: Index
    topology_index: Index
    recent: RecentWrites[Any] = field(default_factory=RecentWrites)
    _fleet_version: int = 0
    _gone: dict[str, datetime] = field(default_factory=dict)
    """When a node that jobs stand on was first missed; Kubernetes does not say."""

    def job(self, key: JobKey) -> JobSeen | None:
        """Return a job, with the status that we wrote last."""
        found: JobSeen | None = next(iter(self.jobs.get(key, ())), None)
        written: JobSeen | None = self.recent.get(("HetRLJob", *key))
        if found is None or written is None or written.uid != found.uid:
            return found
        return written if written.generation >= found.generation else found

    def plans_of(self, job: JobSeen) -> tuple[PlanSeen, ...]:
        """Return the plans that were made for a job."""
        return tuple(self._laid_over("HetRLPlan", self.plans, job))

    def pods_of(self, job: JobSeen) -> tuple[PodSeen, ...]:
        """Return the pods of a job, in the order of their names."""
        pods: list[PodSeen] = list(self._laid_over("Pod", self.pods, job))
        return tuple(sorted(pods, key=lambda each: each.name))

    def has_pods(self, key: JobKey) -> bool:
        """Tell whether pods of a job of that name are left, also when the job is gone."""
        return bool(self.pods.get(key))

    def children_of(self, job: JobSeen) -> tuple[ChildSeen, ...]:
        """Return the StatefulSets, Services and ConfigMaps of a job."""
        return tuple(
            each for kind in CHILD_KINDS for each in self._laid_over(kind, self.children[kind], job)
        )

    def all_jobs(self) -> Iterator[JobSeen]:
        """Return every job."""
        for store in self.jobs.values():
            yield from store

    def hostnames(self, machines: Iterable[str]) -> dict[str, str]:
        """Return the hostname labels of nodes that have one."""
        found = {}
        for name in machines:
            node: Body | None = next(iter(self.node_index.get(name, ())), None)
            label = node and node["metadata"]["labels"].get(HOSTNAME_LABEL)
            if label:
                found[name] = label
        return found

    def lost_nodes(self, names: Iterable[str], now: datetime) -> dict[str, datetime]:
        """Return those of some nodes that are gone or do not answer, and since when."""
        found = {}
        for name in names:
            node: Body | None = next(iter(self.node_index.get(name, ())), None)
            since = self._gone.setdefault(name, now) if node is None else lost_since(node)
            if node is not None:
                self._gone.pop(name, None)
            if since is not None:
                found[name] = since
        return found

    def jobs_on(self, node: str) -> set[JobKey]:
        """Return the jobs with pods on a node."""
        return {key for key, store in self.pods.items() if any(each.node == node for each in store)}

    def nodes(self) -> Iterable[Body]:
        """Return slim Nodes."""
        return [each for store in self.node_index.values() for each in store]

    def topologies(self) -> Iterable[HetRLTopology]:
        """Return every readable HetRLTopology."""
        return [each for store in self.topology_index.values() for each in store]

    def fleet_version(self) -> int:
        """Return a number that changes with the nodes or the topologies."""
        return self._fleet_version

    def fleet_changed(self) -> None:
        """Note that nodes or topologies are not what they were."""
        self._fleet_version += 1

    def _laid_over(self, kind: str, index: Index, job: JobSeen) -> Iterable[Any]:
        shown = {each.name: each for each in index.get((job.namespace, job.name), ())}
        written = self.recent.of(kind, job.namespace)
        ours = {name: each for name, (owner, each) in written.items() if owner == job.uid}
        return {**shown, **ours}.values()
