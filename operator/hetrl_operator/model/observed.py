"""The observed state of one job and its surroundings, as frozen values.

``parse`` makes these from Kubernetes objects; decisions and rendering read nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hetrl_api.job.job import HetRLJobSpec as WrittenSpec
from hetrl_api.job.status import JobStatus
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.pod_sets import PodSet
from hetrl_core.task import Role
from hetrl_operator.model.kueue.admission import QueueingSeen
from hetrl_operator.model.labels import FINALIZER
from hetrl_operator.model.planning import PlanningSeen, PlanSeen, UnreadablePlan


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class ParsedSpec:
    """A job's spec as the user wrote it, and as the core's types.

    Cached values (``parse_spec``, ``render.digests``) are dropped with the last reference to it.
    """

    written: WrittenSpec
    spec: JobSpec
    dimensions_origin: str = ""
    """Where the model's dimensions come from; empty: from the job, or read by its preflight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    """A HetRLJob: its identity, its spec and its status."""

    namespace: str
    name: str
    uid: str
    version: str = ""
    """Its resourceVersion, with which the API server detects outdated writes."""

    generation: int
    created_at: datetime
    deleted_at: datetime | None = None
    """When it was deleted; it exists until its finalizers are removed."""

    finalizers: tuple[str, ...] = ()
    """All finalizers in order: a JSON patch removes one by its index."""

    parsed: ParsedSpec | None
    """None if the spec is invalid; ``problem`` says why."""

    problem: str = ""
    status: JobStatus
    queue: str = ""
    """The LocalQueue of Kueue that its label names; empty: none."""

    queue_priority: str = ""
    """The WorkloadPriorityClass that its label names; empty: none."""

    @property
    def has_finalizer(self) -> bool:
        """Whether it has the operator's finalizer."""
        return FINALIZER in self.finalizers

    @property
    def is_deleting(self) -> bool:
        """Whether it was deleted."""
        return self.deleted_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSeen:
    """An object with the name of a child of the job, reduced to its metadata."""

    kind: str
    name: str
    uid: str
    owner_uid: str
    """UID of its controller; empty: none."""

    owner: str = ""
    """Kind and name of its controller, for messages."""

    spec_hash: str = ""
    fields_hash: str = ""
    """Digest of the field names of the manifest that it was written from; empty: an earlier
    release wrote it."""

    identity: str = ""
    """Digest of the names that the job's certificates cover; on the Service only."""

    is_deleting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    """The last end of a container."""

    exit_code: int
    reason: str = ""
    """In Kubernetes' words: ``Error``, ``OOMKilled``, ``Evicted``."""

    message: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeen:
    """A pod of the job, reduced to what decisions need."""

    name: str
    uid: str
    pod_set: str
    role: Role
    ordinal: int
    created_at: datetime
    set_uid: str = ""
    """UID of the StatefulSet that its owner reference names."""

    node: str = ""
    """The node that it is bound to; empty: none yet."""

    nominated_node: str = ""
    """The node on which the scheduler preempts other pods for it; empty: none."""

    gpus: int = 0
    """GPUs that its containers request."""

    scheduled_at: datetime | None = None
    unschedulable_since: datetime | None = None
    deletion_due_at: datetime | None = None
    """The end of its grace period; None unless it is being deleted."""

    is_gated: bool = False
    is_ready: bool = False
    restarts: int = 0
    waiting_reason: str = ""
    """Why its scheduling or its container waits, in Kubernetes' words."""

    waiting_message: str = ""
    termination: Termination | None = None
    """The last end of its container, also when it runs again."""

    others_trouble: str = ""
    """Problems of containers that webhooks added to the pod; empty: none known."""

    restart_hash: str = ""
    """Its restart digest; empty: an earlier release made it."""

    affinity_nodes: frozenset[str] = frozenset()
    """The nodes that its affinity names, while it waits for one of them; empty: any."""

    selected_hostname: str = ""
    """The hostname that it was pinned to when its gate was removed, if any."""

    def may_be_on(self, machine: str, *, hostname: str) -> bool:
        """Tell whether it is on a machine, or may yet be bound to it."""
        if self.node:
            return self.node == machine
        if self.affinity_nodes and machine not in self.affinity_nodes:
            return False
        return self.selected_hostname in {"", hostname}

    @property
    def is_deleting(self) -> bool:
        """Whether it is being deleted."""
        return self.deletion_due_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightPodSeen:
    """The pod that checks a job, reduced to what decisions need."""

    name: str
    uid: str
    owner_uid: str
    """UID of its controller; empty: none."""

    digest: str
    """Digest of the request that it checks."""

    created_at: datetime
    node: str = ""
    deletion_due_at: datetime | None = None
    has_ended: bool = False
    message: str = ""
    """Its termination message; a report, if it ended as it should."""

    waiting: str = ""
    """Why it does not run yet, in Kubernetes' words."""

    @property
    def is_deleting(self) -> bool:
        """Whether it is being deleted."""
        return self.deletion_due_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesSeen:
    """Problems of the machines of a plan."""

    lost: Mapping[str, datetime] = field(default_factory=dict)
    """Machines that are gone or do not answer, and since when."""

    leaving: Mapping[str, str] = field(default_factory=dict)
    """Machines on which the job's pods cannot stay, and why."""

    full: Mapping[str, "FullMachine"] = field(default_factory=dict)
    """Machines without room for the job's waiting pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullMachine:
    """A machine without room for pods that are pinned to it, as the scheduler reports."""

    pods: tuple[str, ...]
    """Names of the pods that wait for it, sorted."""

    roles: frozenset[Role]
    """Roles of these pods."""

    words: str
    """Why, in the scheduler's words."""

    gpus: int
    """GPUs that the smallest of these pods requests, if GPUs are lacking; else 0."""

    def __str__(self) -> str:
        """Return the rest of a sentence that begins with the machine's name."""
        more = len(self.pods) - _MOST_PODS_NAMED
        names = ", ".join(self.pods[:_MOST_PODS_NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"has no room for {names}: {self.words}"


_MOST_PODS_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FullMachinesSeen:
    """Machines on which a job's pods find no room, and since when."""

    full: Mapping[str, FullMachine] = field(default_factory=dict)
    """Full machines that pods of the job wait for, by name."""

    since: datetime | None = None
    """Since when the job cannot run for lack of room; None: it can."""

    next_at: datetime | None = None
    """When this may change without an event; None: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSeen:
    """The machines, prices and links that a job may use, held by other jobs or not."""

    key: str = ""
    """Digest of the fleet; empty where it is not needed."""

    differs_since: datetime | None = None
    """Since when it differs from the plan's fleet; None: it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSeen:
    """The coordinator's last report."""

    step: int
    total_steps: int
    policy_version: int
    samples_per_second: float
    staleness_p95: float
    reward: float
    eta_seconds: float
    received_at: datetime
    finished: bool = False
    outcome: str = ""
    """``Succeeded`` or ``Failed`` once finished."""

    reason: str = ""
    message: str = ""
    waiting_for: str = ""
    notices: tuple[str, ...] = ()
    """What a user should know of the run's data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedWrite:
    """The last write for this job that the API server refused."""

    reason: str
    """A reason of condition ResourcesCreated."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A consistent snapshot of a job and what bears on it."""

    job: JobSeen
    planning: PlanningSeen
    plans: tuple[PlanSeen, ...] = ()
    """Plans that were made for the job, and users' plans that it names or follows."""

    active_plan: PlanSeen | None = None
    """The plan that the job follows, or will start with."""

    pod_sets: tuple[PodSet, ...] = ()
    """The pod sets of the active plan."""

    manual_plan: PlanSeen | UnreadablePlan | None = None
    """The plan that a job of mode Manual names; None if it does not exist."""

    children: tuple[ChildSeen, ...] = ()
    pods: tuple[PodSeen, ...] = ()
    hostnames: Mapping[str, str] = field(default_factory=dict)
    """``kubernetes.io/hostname`` labels of the plan's machines, by node name."""

    lost_nodes: Mapping[str, datetime] = field(default_factory=dict)
    """Machines of the plan that are gone or do not answer, and since when."""

    leaving: Mapping[str, str] = field(default_factory=dict)
    """Machines of the plan on which the job's pods cannot stay, and why."""

    full_machines: FullMachinesSeen = field(default_factory=FullMachinesSeen)
    fleet: FleetSeen = field(default_factory=FleetSeen)
    machines: tuple[str, ...] = ()
    """Machines that the job may get GPUs of, held or free, at most as many as a preflight names;
    empty while it has pods."""

    preflight_pod: PreflightPodSeen | None = None
    """The pod that checks the job before it gets GPUs."""

    progress: ProgressSeen | None = None
    refused_write: RefusedWrite | None = None
    queueing: QueueingSeen = field(default_factory=QueueingSeen)

    @property
    def nodes(self) -> NodesSeen:
        """Problems of the plan's machines."""
        return NodesSeen(lost=self.lost_nodes, leaving=self.leaving, full=self.full_machines.full)
