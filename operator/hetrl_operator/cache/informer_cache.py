"""The informer cache: the cluster as the watches show it, overlaid with our pending writes.

It holds values, not objects. kopf's indexes fill it, and each reconcile reads it once.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hetrl_api.fleet.topology import HetRLTopology
from hetrl_core.plan.pod_sets import COORDINATOR
from hetrl_operator.cache.pending_writes import PendingWrites, Place
from hetrl_operator.model.containers import Body
from hetrl_operator.model.kueue.admission import WorkloadSeen
from hetrl_operator.model.nodes import Tolerations, must_leave, waits_for
from hetrl_operator.model.observed import ChildSeen, JobSeen, NodesSeen, PodSeen, PreflightPodSeen
from hetrl_operator.model.parse import JobKey, lost_since
from hetrl_operator.model.planning import PlanSeen, UnreadablePlan
from hetrl_operator.planning.scheduler_messages import is_about_machine

Index = Mapping[Any, Iterable[Any]]
"""A kopf index: values by key, live."""

HOSTNAME_LABEL = "kubernetes.io/hostname"
CHILD_KINDS = ("StatefulSet", "Service", "ConfigMap")

LATE_SECONDS = 30.0
"""Time after its grace period in which a stopping pod still counts as about to free its GPUs."""


@dataclass(slots=True)
class InformerCache:
    """Live indexes, and the pending writes that they do not show yet."""

    jobs: Index
    plans: Index
    pods: Index
    children: Mapping[str, Index]
    """By kind."""

    node_index: Index
    topology_index: Index
    plan_homes: Index = field(default_factory=dict)
    """Key in ``plans`` of a HetRLPlan, by its namespace and name."""

    followers: Index = field(default_factory=dict)
    """Jobs that name a HetRLPlan, by its namespace and name."""

    workloads: Index | None = None
    """Kueue's Workloads; None if Kueue is not used."""

    pending_writes: PendingWrites[Any] = field(default_factory=PendingWrites)
    gone: set[Place] = field(default_factory=set)
    """Deleted objects that the indexes still show; ``MissedDeletes`` finds them."""

    _fleet_version: int = 0
    _fleet_changed_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    _gone: dict[str, datetime] = field(default_factory=dict)
    """When a node with pods of jobs was first missing; Kubernetes does not say."""

    def job(self, key: JobKey) -> JobSeen | None:
        """Return a job, with the status of our last write."""
        if ("HetRLJob", *key) in self.gone:
            return None
        # A job that was deleted and created again may be shown twice for a moment.
        shown: Iterable[JobSeen] = self.jobs.get(key, ())
        found = max(shown, key=lambda each: each.created_at, default=None)
        written: JobSeen | None = self.pending_writes.get(("HetRLJob", *key))
        if found is None or written is None or written.uid != found.uid:
            return found
        return written if written.generation >= found.generation else found

    def plans_of(self, job: JobSeen) -> tuple[PlanSeen | UnreadablePlan, ...]:
        """Return the plans that were made for a job, are active for it, or that it names."""
        found = {each.name: each for each in self._merged("HetRLPlan", self.plans, job)}
        named = job.parsed.written.planning.plan_ref if job.parsed else None
        follows = job.status.plan.name if job.status.plan else None
        for name in {named, follows} - {None} - found.keys():
            found.update((each.name, each) for each in self._plans_at((job.namespace, name)))
        return tuple(found.values())

    def followers_of(self, namespace: str, plan: str) -> set[JobKey]:
        """Return the jobs whose spec names a HetRLPlan."""
        return set(self.followers.get((namespace, plan), ()))

    def pods_of(self, job: JobSeen) -> tuple[PodSeen, ...]:
        """Return the pods of a job, sorted by name."""
        found = self._merged("Pod", self.pods, job)
        pods: list[PodSeen] = [each for each in found if isinstance(each, PodSeen)]
        return tuple(sorted(pods, key=lambda each: each.name))

    def reporting_pods_of(self, job: JobSeen) -> frozenset[str]:
        """Return the UIDs of the pods that may report for a job: its coordinator's.

        It is the pod of a StatefulSet that the job controls, by the UIDs of both.
        """
        sets = {
            each.uid
            for each in self.children_of(job)
            if each.kind == "StatefulSet" and each.owner_uid == job.uid
        }
        return frozenset(
            each.uid
            for each in self.pods_of(job)
            if each.pod_set == COORDINATOR and each.set_uid in sets and each.ordinal == 0
        )

    def preflight_pod_of(self, job: JobSeen) -> PreflightPodSeen | None:
        """Return the pod that checks a job before it gets GPUs."""
        found = self._merged("Pod", self.pods, job)
        return next((each for each in found if isinstance(each, PreflightPodSeen)), None)

    def has_pods(self, key: JobKey) -> bool:
        """Tell whether pods of a job of this name exist, even if the job is gone."""
        shown = self.pods.get(key, ())
        return any(("Pod", key[0], each.name) not in self.gone for each in shown)

    def children_of(self, job: JobSeen) -> tuple[ChildSeen, ...]:
        """Return the StatefulSets, Services and ConfigMaps of a job."""
        return tuple(
            each for kind in CHILD_KINDS for each in self._merged(kind, self.children[kind], job)
        )

    def workload_of(self, job: JobSeen) -> WorkloadSeen | None:
        """Return a job's Workload."""
        if self.workloads is None:
            return None
        found: Iterable[WorkloadSeen] = self._merged("Workload", self.workloads, job)
        return next(
            (each for each in found if each.owner_uid == job.uid and not each.is_deleting), None
        )

    def all_jobs(self) -> Iterator[JobSeen]:
        """Return every job."""
        for key, store in self.jobs.items():
            if ("HetRLJob", *key) not in self.gone:
                yield from store

    def owner_of(self, place: Place) -> JobKey | None:
        """Return the key of the job that an object belongs to, from the indexes."""
        kind, namespace, name = place
        for key, store in self._owned(kind).items():
            # A plan that no job follows has an empty name in its key.
            if key[0] == namespace and key[1] and any(each.name == name for each in store):
                return key[0], key[1]
        return None

    def places(self, kind: str) -> set[Place]:
        """Return the places of all indexed objects of a kind."""
        found: set[Place]
        match kind:
            case "HetRLJob":
                found = {(kind, *key) for key in self.jobs}
            case "Node" | "HetRLTopology":
                index = self.node_index if kind == "Node" else self.topology_index
                found = {(kind, "", name) for name in index}
            case _:
                found = {
                    (kind, namespace, each.name)
                    for (namespace, _), store in self._owned(kind).items()
                    for each in store
                }
        return found - self.gone

    def hostnames(self, machines: Iterable[str]) -> dict[str, str]:
        """Return the hostname labels of nodes that have one."""
        found = {}
        for name in machines:
            node: Body | None = next(iter(self.node_index.get(name, ())), None)
            label = node and node["metadata"]["labels"].get(HOSTNAME_LABEL)
            if label:
                found[name] = label
        return found

    def labels(self, machines: Iterable[str], keys: Collection[str]) -> dict[str, dict[str, str]]:
        """Return the given labels of the existing nodes among these."""
        found = {}
        for name in machines:
            node: Body | None = next(iter(self.node_index.get(name, ())), None)
            if node is not None:
                labels = node["metadata"]["labels"]
                found[name] = {key: labels[key] for key in sorted(keys) if key in labels}
        return found

    def lost_nodes(self, names: Iterable[str], now: datetime) -> dict[str, datetime]:
        """Return the nodes among these that are gone or do not answer, and since when."""
        found = {}
        for name in names:
            node: Body | None = next(iter(self.node_index.get(name, ())), None)
            since = self._gone.setdefault(name, now) if node is None else lost_since(node)
            if node is not None:
                self._gone.pop(name, None)
            if since is not None:
                found[name] = since
        return found

    def leaving_nodes(
        self, names: Iterable[str], tolerations: Tolerations, pods: Iterable[PodSeen]
    ) -> dict[str, str]:
        """Return the nodes among these on which a job's pods cannot stay, and why."""
        found = {}
        for name in names:
            node: Body | None = next(iter(self.node_index.get(name, ())), None)
            if node is not None and (why := must_leave(node, tolerations, pods)):
                found[name] = why
        return found

    def crowded(
        self, names: Iterable[str], pods: Iterable[PodSeen], nodes: NodesSeen, now: datetime
    ) -> dict[str, tuple[PodSeen, ...]]:
        """Return by node the pods of a job that the scheduler cannot bind to it.

        Lost and leaving nodes are omitted: they are handled as such. So are nodes where room is
        being made, as a pod of a job stops or the scheduler preempts others.
        """
        stuck = [each for each in pods if _is_stuck_on_machine(each)]
        if not stuck:
            return {}
        found = {}
        for name in set(names) - nodes.lost.keys() - nodes.leaving.keys():
            node: Body | None = next(iter(self.node_index.get(name, ())), None)
            if node is None:
                continue
            waiting = tuple(each for each in stuck if waits_for(node, each))
            if waiting and not self._is_vacating(name, now):
                found[name] = waiting
        return found

    def _is_vacating(self, node: str, now: datetime) -> bool:
        """Tell whether a pod of a job is about to free what it holds on a node."""
        late = timedelta(seconds=LATE_SECONDS)
        return any(
            each.node == node and each.deletion_due_at and now < each.deletion_due_at + late
            for store in self.pods.values()
            for each in store
        )

    def jobs_on(self, node: str) -> set[JobKey]:
        """Return the jobs with pods on a node."""
        return {key for key, store in self.pods.items() if any(each.node == node for each in store)}

    def nodes(self) -> Iterable[Body]:
        """Return slim Nodes."""
        return self._there("Node", self.node_index)

    def topologies(self) -> Iterable[HetRLTopology]:
        """Return every readable HetRLTopology."""
        return self._there("HetRLTopology", self.topology_index)

    def fleet_version(self) -> int:
        """Return a number that changes with the nodes or the topologies."""
        return self._fleet_version

    def fleet_changed_at(self) -> datetime:
        """Return when the nodes or topologies last changed."""
        return self._fleet_changed_at

    def fleet_changed(self) -> None:
        """Record a change of nodes or topologies."""
        self._fleet_version += 1
        self._fleet_changed_at = datetime.now(UTC)

    def _plans_at(self, place: tuple[str, str | None]) -> list[PlanSeen | UnreadablePlan]:
        namespace, name = place
        if ("HetRLPlan", namespace, name) in self.gone:
            return []
        return [
            each
            for home in self.plan_homes.get(place, ())
            for each in self.plans.get(home, ())
            if each.name == name
        ]

    def _owned(self, kind: str) -> Index:
        """Return the index of a kind that belongs to jobs."""
        ours = {"HetRLPlan": self.plans, "Pod": self.pods, "Workload": self.workloads or {}}
        return {**ours, **self.children}[kind]

    def _there(self, kind: str, index: Index) -> list[Any]:
        return [
            each
            for name, store in index.items()
            for each in store
            if (kind, "", name) not in self.gone
        ]

    def _merged(self, kind: str, index: Index, job: JobSeen) -> Iterable[Any]:
        shown = {
            each.name: each
            for each in index.get((job.namespace, job.name), ())
            if (kind, job.namespace, each.name) not in self.gone
        }
        return {**shown, **self.pending_writes.of(kind, job.uid)}.values()


def _is_stuck_on_machine(pod: PodSeen) -> bool:
    """Tell whether the scheduler rejected a pod's machine and preempts nothing there."""
    is_stuck = pod.unschedulable_since is not None and not (pod.node or pod.is_deleting)
    return is_stuck and not pod.nominated_node and is_about_machine(pod.waiting_message)
