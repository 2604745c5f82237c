"""The actions that a decision may contain, as values.

``kube.writer`` applies them, and ``planning`` plans. Actions are applied step by step (``steps``).
A failed step ends the reconcile, since later steps may rely on earlier ones.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from hetrl_api.job.status import JobStatus
from hetrl_core.plan.plan import Plan

Manifest = Mapping[str, Any]
"""A Kubernetes object as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Create or update one object by server-side apply."""

    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete one object, with its UID as precondition."""

    kind: str
    name: str
    uid: str
    why: str
    is_forced: bool = False
    """Whether to delete without waiting for the kubelet; for pods only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueCertificates:
    """Write the Secret with the job's certificates; the writer makes its content."""

    secret: str
    dns_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    """The priority class by which a queue orders a Workload."""

    name: str
    is_kueues: bool
    """Whether it is Kueue's WorkloadPriorityClass; else it is the pods' PriorityClass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitWorkload:
    """Create the Workload that waits in a queue; the writer reads its priority."""

    manifest: Manifest
    priority: PriorityClass | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueWorkload:
    """Return an evicted Workload's quota, if the Workload is unchanged; it waits again."""

    name: str
    resource_version: str
    conditions: tuple[Manifest, ...]
    """All conditions of the Workload: the list is written whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateWorkloadStatus:
    """Write the conditions of a Workload that the controller of its pods owns."""

    name: str
    uid: str
    conditions: tuple[Manifest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSchedulingGate:
    """Remove a pod's scheduling gate, and pin it to a machine if one is named."""

    pod: str
    uid: str
    hostname: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlanning:
    """Start a search for a plan; the planning service returns the answer later."""

    request_id: str = ""
    """Identity of the request: see ``decide.plan.drift``. Empty: the first plan of a job."""

    current: Plan | None = None
    """The plan that the job runs by; the search keeps what need not move."""

    manual_plan: Plan | None = None
    """The plan to validate; None: search for one."""

    keeps_trainer: bool = False
    """Whether the trainers should keep their machines if possible."""

    unreserved: bool = False
    """Whether to plan on the whole fleet without reserving, for a job that waits in a queue."""

    enough_percent: float | None = None
    """The gain in percent that other rollouts alone must bring, so that no whole new plan is
    searched. If set, the answer is alternatives to the current plan; None: it is one plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveGpus:
    """Reserve a plan's GPUs for the job; fails if another job holds them."""

    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseGpus:
    """Release the job's reservation; none of its pods holds a GPU any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatePlan:
    """Annotate a HetRLPlan of any author, with its UID as precondition."""

    name: str
    uid: str
    annotations: Mapping[str, str | None]
    """Annotations to set; None removes one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus:
    """Write the job's status."""

    status: JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """Delete the finished job itself, after its time to live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFinalizer:
    """Add the operator's finalizer, before the first pod is created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFinalizer:
    """Remove the finalizer: the job holds no GPU, or its release deadline has passed."""


Action = (
    Apply
    | AnnotatePlan
    | Delete
    | IssueCertificates
    | SubmitWorkload
    | RequeueWorkload
    | UpdateWorkloadStatus
    | RemoveSchedulingGate
    | StartPlanning
    | ReserveGpus
    | ReleaseGpus
    | AddFinalizer
    | RemoveFinalizer
    | DeleteJob
)


def steps(actions: Iterable[Action]) -> Iterator[tuple[Action, ...]]:
    """Yield groups of actions that may be applied concurrently, in order.

    A group consists of neighbours that write objects of one kind, or remove gates. Otherwise a job
    with many pods would wait for each write in turn.
    """
    for _, together in groupby(actions, key=_sort):
        yield tuple(together)


def _sort(action: Action) -> tuple[object, ...]:
    match action:
        case Apply(manifest=manifest):
            return Apply, manifest["kind"]
        case Delete(kind=kind):
            return Delete, kind
        case RemoveSchedulingGate():
            return (RemoveSchedulingGate,)
        case _:
            return (id(action),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A Kubernetes Event on the job."""

    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The result of one reconcile: status, actions and events of one job."""

    status: WriteStatus | None = None
    """The new status, if it differs. It is written first, so that a verdict is recorded before the
    pods are deleted, and a refused write is reported even if no action follows."""

    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    wake_after_seconds: float | None = None
    """Delay after which to reconcile again without an event; None: only after an event."""
