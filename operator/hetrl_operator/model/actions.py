"""What may be done for a job, as values; ``apply`` does it, ``planning`` plans it.

Actions are carried out step by step (``steps``), and the first step in which one fails ends the
round: what follows may rely on what came before.
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
    """Delete one object, if it is still that one."""

    kind: str
    name: str
    uid: str
    why: str
    is_forced: bool = False
    """Without waiting for a kubelet that will not answer; for pods only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueCertificates:
    """Write the Secret with the job's certificates; its content is made where it is written."""

    secret: str
    dns_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    """What a queue orders a Workload by, by name."""

    name: str
    is_kueues: bool
    """A WorkloadPriorityClass; else the PriorityClass of pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitWorkload:
    """Create the Workload that waits in a queue; its priority is read where it is written."""

    manifest: Manifest
    priority: PriorityClass | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueWorkload:
    """Give an evicted Workload's quota back, if it is still as we saw it; it waits again."""

    name: str
    resource_version: str
    conditions: tuple[Manifest, ...]
    """All that it shall have: a list is written whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateWorkloadStatus:
    """Write those conditions of a Workload that who runs its pods is to write."""

    name: str
    uid: str
    conditions: tuple[Manifest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSchedulingGate:
    """Let the scheduler have a pod, on exactly this machine where one is named."""

    pod: str
    uid: str
    hostname: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlanning:
    """Have a plan made; the answer comes back through the planning service."""

    key: str
    base: str = ""
    """What the answer is for, where the job runs by another plan; see ``decide.drift``."""

    current: Plan | None = None
    """The plan that the job runs by: what need not move stays where it is."""

    manual_plan: Plan | None = None
    """The plan to be looked at: whether the job can run by it. None: one is searched for."""

    keeps_trainer: bool = False
    """Whether its trainers should stay where they are if they can."""

    unreserved: bool = False
    """On the whole fleet, whoever holds it, reserving nothing: a queue says whose turn it is."""

    enough_percent: float | None = None
    """What is asked for is something better than the standing plan, in more ways than one while
    none gains so much; None: one plan, whatever it is like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveGpus:
    """Hold a plan's GPUs for the job; fails when another job came first."""

    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseGpus:
    """Give the job's reservation back: none of its pods holds a GPU any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatePlan:
    """Write on a HetRLPlan what it is to a job, whoever wrote it, if it is still that one."""

    name: str
    uid: str
    annotations: Mapping[str, str | None]
    """None takes one off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus:
    """Write the job's status."""

    status: JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """Delete the job itself, when its time after the end is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFinalizer:
    """Keep a deleted job until we let it go: a finalizer, written before the first pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFinalizer:
    """Take the finalizer off: nothing of the job holds a GPU, or its time is over."""


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
    """Yield the actions that may be carried out at once, in the order in which that is.

    Those are neighbours that write objects of one kind, or gates: a job of many pods would else
    wait for each of them in turn.
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
    """Something worth telling on the job."""

    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do next for one job."""

    status: WriteStatus | None = None
    """Written before anything else, where it differs: it tells what was seen, so a verdict is
    on record before the pods go, and a refused write is told though nothing follows it."""

    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    wake_after_seconds: float | None = None
    """When to look again though nothing has happened; None: only when something has."""
