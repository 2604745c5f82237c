"""kopf's handlers: indexes that fill the informer cache, and events that feed the queue.

They are low-level handlers only: those for creation and update would be edge-triggered, and would
write kopf's annotations into every job. Nothing is decided here.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import kopf

from hetrl_api.fleet.topology import HetRLTopology
from hetrl_api.load import parse
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_operator.cache.informer_cache import InformerCache
from hetrl_operator.cache.pending_writes import PendingWrites, Place
from hetrl_operator.kopf_adapter.slimming import strip_content
from hetrl_operator.model import parse as observe
from hetrl_operator.model.kueue import api as kueue_api
from hetrl_operator.model.kueue.admission import NOT_STARTED, WorkloadSeen, workload_seen
from hetrl_operator.model.labels import FIELD_MANAGER, GROUP, MANAGED_BY
from hetrl_operator.model.observed import ChildSeen, JobSeen, PodSeen, PreflightPodSeen
from hetrl_operator.model.parse import Body, JobKey
from hetrl_operator.model.plain import plain
from hetrl_operator.model.planning import PlanSeen, UnreadablePlan
from hetrl_operator.reconcile.reconciler import Controller

log = logging.getLogger(__name__)

JOBS = f"hetrljobs.v1alpha1.{GROUP}"
PLANS = f"hetrlplans.v1alpha1.{GROUP}"
TOPOLOGIES = f"hetrltopologies.v1alpha1.{GROUP}"
CHILD_RESOURCES = {
    "StatefulSet": "statefulsets.v1.apps",
    "Service": "services.v1",
    "ConfigMap": "configmaps.v1",
}
_OURS = f"{MANAGED_BY}={FIELD_MANAGER}"


@dataclass(slots=True)
class Hooks:
    """The state of the handlers: the controller, once the informer cache exists."""

    make_controller: Callable[[InformerCache, str], Controller]
    watch_silence_seconds: float
    queues_off: str = NOT_STARTED
    """Why Workloads are not watched; empty: they are. It is set before watches start."""

    controller: Controller | None = None
    _nodes: dict[str, Body] = field(default_factory=dict)
    _has_begun: bool = False

    def started(self, indices: Mapping[str, Any]) -> None:
        """Build the controller over kopf's live indexes."""
        cache = InformerCache(
            jobs=indices["jobs"],
            plans=indices["plans"],
            pods=indices["pods"],
            children={kind: indices[kind.lower()] for kind in CHILD_RESOURCES},
            node_index=indices["nodes"],
            topology_index=indices["topologies"],
            plan_homes=indices["plan-homes"],
            followers=indices["followers"],
            workloads=indices["workloads"] if not self.queues_off else None,
            pending_writes=PendingWrites(),
        )
        self.controller = self.make_controller(cache, self.queues_off)

    def happened(self, kind: str, key: JobKey | None, event: Mapping[str, Any]) -> None:
        """Enqueue a job after an event of one of its objects."""
        controller = self._ready(kind, event)
        metadata = event["object"]["metadata"]
        controller.cache.pending_writes.shown(
            _place(kind, event),
            resource_version=metadata.get("resourceVersion", ""),
            is_deleted=event["type"] == "DELETED",
        )
        if key is not None:
            controller.queue.add(key)
        if kind == "HetRLPlan":
            for follower in controller.cache.followers_of(metadata["namespace"], metadata["name"]):
                controller.queue.add(follower)

    def fleet_changed(self, kind: str, event: Mapping[str, Any]) -> None:
        """Enqueue jobs without a plan after a change that planning can see."""
        # An object that was marked as gone is a change even if it looks as before.
        was_gone = self.controller and _place(kind, event) in self.controller.cache.gone
        controller = self._ready(kind, event)
        body = event["object"]
        name = body["metadata"]["name"]
        if kind == "Node":
            node = observe.slim_node(body) if event["type"] != "DELETED" else None
            if self._nodes.get(name) == node and not was_gone:
                return
            if node is None:
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = node
        controller.fleet_changed()
        if kind == "Node":
            controller.enqueue_jobs_on_node(name)

    def _ready(self, kind: str, event: Mapping[str, Any]) -> Controller:
        assert self.controller, "kopf runs start-up handlers before all others"
        if not self._has_begun:
            self._begin(self.controller)
        self.controller.missed_deletes.record_event(_place(kind, event), event["type"])
        self.controller.metrics.watched(resource=kind, type_=event["type"] or "LISTED")
        return self.controller

    def _begin(self, controller: Controller) -> None:
        """Restore the state: the first event comes after every index is filled."""
        self._has_begun = True
        controller.restore()
        # The first list has an event for every node; each would compute the fleet again.
        self._nodes = {each["metadata"]["name"]: each for each in controller.cache.nodes()}
        controller.fleet_changed()


def _place(kind: str, event: Mapping[str, Any]) -> Place:
    metadata = event["object"]["metadata"]
    return kind, metadata.get("namespace", ""), metadata["name"]


def register(registry: kopf.OperatorRegistry, hooks: Hooks) -> None:
    """Register every handler."""
    _register_start(registry, hooks)
    _register_indexes(registry, has_kueue=not hooks.queues_off)
    _register_events(registry, hooks)


def configure(settings: kopf.OperatorSettings, *, watch_silence_seconds: float) -> None:
    """Set kopf up; each line says what happens without it."""
    # Our own names on objects, in case a handler ever needs them.
    settings.persistence.finalizer = f"{GROUP}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    # Without this every object is copied whole at every event, to be compared with nothing.
    settings.persistence.diffbase_storage = _NoDiffs()
    # Events are ours, and few; log lines do not become Events.
    settings.posting.enabled = False
    # A watch that has died silently is noticed, and each is renewed every 10 min anyway.
    settings.watching.connect_timeout = 10
    settings.watching.inactivity_timeout = watch_silence_seconds
    settings.watching.server_timeout = 10 * 60
    settings.watching.client_timeout = 11 * 60
    # Lists in pages: one answer of 10,000 pods would need hundreds of MiB.
    settings.watching.chunk_size = 500
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    # A number would deadlock with indexes: they wait for every object of the first list.
    settings.queueing.worker_limit = None
    # An object's worker keeps its last event for this time: with kopf's default of five seconds,
    # thousands of starting pods would take tens of MiB.
    settings.queueing.idle_timeout = 0.2
    # Without the right to list CRDs and namespaces, a rescan would stop the operator.
    settings.scanning.disabled = True
    # Filters of decorators work on our side only: every pod of the cluster would be sent.
    for resource in ("pods.v1", *CHILD_RESOURCES.values(), kueue_api.RESOURCE):
        settings.watching.label_selectors[resource] = _OURS


class _NoDiffs(kopf.DiffBaseStorage):  # type: ignore[misc]  # kopf ships no types
    """A store of last-handled states that stores nothing: only change handlers would need it."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> Any:
        return None

    def store(self, **_: Any) -> None:
        pass


def _register_start(registry: kopf.OperatorRegistry, hooks: Hooks) -> None:
    async def start(settings: kopf.OperatorSettings, **indices: Any) -> None:
        configure(settings, watch_silence_seconds=hooks.watch_silence_seconds)
        hooks.started(indices)

    async def login(**kwargs: Any) -> Any:
        # Without the client libraries' own logins, which differ in what they read.
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    kopf.on.startup(registry=registry)(start)
    kopf.on.login(registry=registry)(login)


def _register_indexes(registry: kopf.OperatorRegistry, *, has_kueue: bool) -> None:
    # The order matters: the last index of a kind strips the object.
    indexes = {
        "jobs": (JOBS, _job_index),
        "followers": (JOBS, _stripping(_follower_index)),
        "plans": (PLANS, _plan_index),
        "plan-homes": (PLANS, _stripping(_plan_home_index)),
        "pods": ("pods.v1", _stripping(_pod_index)),
        "nodes": ("nodes.v1", _node_index),
        "topologies": (TOPOLOGIES, _topology_index),
        **({"workloads": (kueue_api.RESOURCE, _stripping(_workload_index))} if has_kueue else {}),
        **{
            kind.lower(): (name, _stripping(_child_index(kind)))
            for kind, name in CHILD_RESOURCES.items()
        },
    }
    for name, (resource, index) in indexes.items():
        kopf.index(resource, id=name, registry=registry)(index)


def _register_events(registry: kopf.OperatorRegistry, hooks: Hooks) -> None:
    children = {"Pod": "pods.v1", **CHILD_RESOURCES}
    if not hooks.queues_off:
        children["Workload"] = kueue_api.RESOURCE
    handlers = {
        "HetRLJob": (JOBS, _job_event(hooks)),
        "HetRLPlan": (PLANS, _plan_event(hooks)),
        **{kind: (resource, _child_event(kind, hooks)) for kind, resource in children.items()},
        "Node": ("nodes.v1", _fleet_event("Node", hooks)),
        "HetRLTopology": (TOPOLOGIES, _fleet_event("HetRLTopology", hooks)),
    }
    for kind, (resource, handler) in handlers.items():
        kopf.on.event(resource, id=f"on-{kind.lower()}", registry=registry)(handler)


def _stripping(index: Any) -> Any:
    """Return an index function that strips an object to its metadata afterwards."""

    async def stripped(body: Body, **_: Any) -> Any:
        found = await index(body)
        strip_content(body)
        return found

    return stripped


async def _job_index(body: Body, **_: Any) -> dict[JobKey, JobSeen]:
    return {observe.key_of_job(body): observe.job_seen(body)}


async def _plan_index(body: Body, **_: Any) -> dict[JobKey, PlanSeen | UnreadablePlan] | None:
    seen = observe.plan_seen(body)
    return {observe.key_of_plan(body): seen} if seen else None


async def _plan_home_index(body: Body, **_: Any) -> dict[tuple[str, str], JobKey]:
    metadata = body["metadata"]
    return {(metadata["namespace"], metadata["name"]): observe.key_of_plan(body)}


async def _follower_index(body: Body, **_: Any) -> dict[tuple[str, str], JobKey] | None:
    namespace, name = observe.key_of_job(body)
    plan = (body["spec"].get("planning") or {}).get("planRef")
    return {(namespace, plan): (namespace, name)} if plan else None


async def _pod_index(body: Body, **_: Any) -> dict[JobKey, PodSeen | PreflightPodSeen] | None:
    key = observe.key_of_owner(body)
    seen = observe.pod_seen(body) or observe.preflight_pod_seen(body)
    return {key: seen} if key and seen else None


async def _workload_index(body: Body, **_: Any) -> dict[JobKey, WorkloadSeen] | None:
    key = observe.key_of_owner(body)
    return {key: workload_seen(body)} if key else None


async def _node_index(body: Body, **_: Any) -> dict[str, Body]:
    return {body["metadata"]["name"]: observe.slim_node(body)}


async def _topology_index(body: Body, **_: Any) -> dict[str, HetRLTopology] | None:
    name = body["metadata"]["name"]
    copy = plain(body)
    copy.pop("status", None)
    try:
        return {name: parse(HetRLTopology, copy)}
    except InvalidObjectError as error:
        log.warning("topology left out: name=%s reason=%s", name, error)
        return None


def _child_index(kind: str) -> Any:
    async def index(body: Body, **_: Any) -> dict[JobKey, ChildSeen] | None:
        key = observe.key_of_owner(body)
        return {key: observe.child_seen(kind, body)} if key else None

    return index


def _job_event(hooks: Hooks) -> Any:
    async def handler(event: Mapping[str, Any], body: Body, **_: Any) -> None:
        hooks.happened("HetRLJob", observe.key_of_job(body), event)

    return handler


def _plan_event(hooks: Hooks) -> Any:
    async def handler(event: Mapping[str, Any], body: Body, **_: Any) -> None:
        key = observe.key_of_plan(body)
        hooks.happened("HetRLPlan", key if key[1] else None, event)

    return handler


def _child_event(kind: str, hooks: Hooks) -> Any:
    async def handler(event: Mapping[str, Any], body: Body, **_: Any) -> None:
        hooks.happened(kind, observe.key_of_owner(body), event)

    return handler


def _fleet_event(kind: str, hooks: Hooks) -> Any:
    async def handler(event: Mapping[str, Any], **_: Any) -> None:
        hooks.fleet_changed(kind, event)

    return handler
