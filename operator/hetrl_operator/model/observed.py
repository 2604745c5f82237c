"""The observed state of one job and its surroundings, as frozen values.

``parse`` makes these from Kubernetes objects; decisions and rendering read nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hetrl_api.job.job import HetRLJobSpec as WrittenSpec
from hetrl_api.job.status import JobStatus
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Infeasible, Plan, Prediction
from hetrl_core.task import Role
from hetrl_operator.model.kueue_admission import QueueingSeen
from hetrl_operator.model.labels import FINALIZER


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class ParsedSpec:
    """A job's spec as the user wrote it, and as the core's types.

    Cached values (``parse_spec``, ``render.digests``) are dropped with the last reference to it.
    """

    written: WrittenSpec
    spec: JobSpec


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
class PlanSeen:
    """A HetRLPlan that the operator made for a job, or that a user wrote."""

    name: str
    uid: str
    made_for: str = ""
    """The uid of the job that the operator made it for; empty: a user wrote it."""

    planned_for: str
    """Digest of the planning fields that it was made for; empty: a user wrote it."""

    key: str
    """Digest of all its inputs; of its uid if a user wrote it."""

    plan: Plan
    created_at: datetime
    left_out: str = ""
    """The nodes that the search could not use, and why."""

    replaces: str = ""
    """The plan that it replaced, if the job ran by one."""

    replaces_because: str = ""
    """Why it replaced that plan; empty: an earlier release or a user wrote it."""

    fleet: str = ""
    """Digest of the fleet that it was made for; empty: an earlier release made it."""

    active_for: str = ""
    """The name of the job that runs by it, from its annotation."""

    replaced_at: datetime | None = None
    """Since when its job does not follow it any more; None: it is not archived."""

    @property
    def is_past(self) -> bool:
        """Whether it is archived: kept for people, or for a later return to it."""
        return self.replaced_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadablePlan:
    """A HetRLPlan that cannot be read."""

    name: str
    uid: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InsufficientFreeGpus:
    """The job fits the fleet, but not what other jobs leave free of it."""

    reasons: tuple[str, ...]
    held_gpus: int
    """GPUs that other jobs hold."""

    full: tuple[str, ...] = ()
    """Machines left out because the scheduler finds no room on them, a line per reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """Other plans for a running job on the fleet as it is now."""

    current: Prediction
    """The active plan's prediction there."""

    plans: tuple[Plan, ...]
    """Plans with the fewest moves first: other rollouts with the same trainers, then any plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerError:
    """The planner ended without an answer."""

    reason: str
    """A reason of condition Planned."""

    message: str


Answer = Plan | Alternatives | Infeasible | InsufficientFreeGpus | PlannerError


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningSeen:
    """The state of planning for this job."""

    spec_key: str
    """Digest of the planning fields as they are now."""

    key: str
    """Digest of the planning fields and of the fleet that is free for this job now."""

    is_running: bool = False
    answer: Answer | None = None
    """The last answer for these planning fields; None if there is none."""

    answer_key: str = ""
    """Digest of the answer's inputs."""

    answer_base: str = ""
    """The base that the answer was requested for; empty for a job without a plan."""

    answer_fleet: str = ""
    """Digest of the answer's fleet."""

    answered_at: datetime | None = None
    """When the answer came; None if there is none."""

    num_failures: int = 0
    """Consecutive failures of the planner for this request."""

    left_out: str = ""
    """The nodes that the answer could not use, and why."""

    is_reserved: bool = False
    """Whether the job has a reservation."""

    conflict: str = ""
    """Why the plan's GPUs cannot be reserved now; empty if they can be, or are."""

    holds_manual_plan: bool = False
    """Whether the job's reservation equals the GPUs of its manual plan."""


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

    unreadable: tuple[UnreadablePlan, ...] = ()
    """Plans that it names and that cannot be read."""

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
    progress: ProgressSeen | None = None
    refused_write: RefusedWrite | None = None
    queueing: QueueingSeen = field(default_factory=QueueingSeen)

    @property
    def nodes(self) -> NodesSeen:
        """Problems of the plan's machines."""
        return NodesSeen(lost=self.lost_nodes, leaving=self.leaving, full=self.full_machines.full)
