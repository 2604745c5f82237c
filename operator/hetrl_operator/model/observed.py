"""What we saw of one job and everything around it, as frozen values.

``observe`` makes these from Kubernetes objects; deciding and rendering read nothing else.
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
    """What a job asks, as it was written and as the core understands it.

    What is remembered of a wish (``wishes``, ``render.digests``) goes when nobody has it any more.
    """

    written: WrittenSpec
    spec: JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    """A HetRLJob: its identity, what it asks, and the status that it shows."""

    namespace: str
    name: str
    uid: str
    version: str = ""
    """Its resourceVersion, by which the API server tells what is older than what it has."""

    generation: int
    created_at: datetime
    deleted_at: datetime | None = None
    """When somebody deleted it; it is there until its finalizers are gone."""

    finalizers: tuple[str, ...] = ()
    """All of them, in their order: a JSON patch names the one that it removes by its index."""

    parsed: ParsedSpec | None
    """None where the spec cannot be worked on; ``problem`` says why."""

    problem: str = ""
    status: JobStatus
    queue: str = ""
    """The LocalQueue of Kueue that its label names; empty: none."""

    queue_priority: str = ""
    """The WorkloadPriorityClass that its label names; empty: none."""

    @property
    def has_finalizer(self) -> bool:
        """Whether it stays until the operator removes its own finalizer."""
        return FINALIZER in self.finalizers

    @property
    def is_deleting(self) -> bool:
        """Whether somebody deleted it."""
        return self.deleted_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSeen:
    """An object with the name of a child of the job, reduced to its metadata."""

    kind: str
    name: str
    uid: str
    owner_uid: str
    """UID of its controller; empty: it has none."""

    owner: str = ""
    """Kind and name of its controller, for messages."""

    spec_hash: str = ""
    fields_hash: str = ""
    """Digest of the field names of the manifest that it was written from; empty: an earlier
    release wrote it."""

    identity: str = ""
    """What names the job's certificates were issued for; on the Service only."""

    is_deleting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    """How a container ended last."""

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
    """Where it was bound to; empty while it was not."""

    nominated_node: str = ""
    """Where the scheduler is making room for it by preemption; empty: nowhere."""

    gpus: int = 0
    """GPUs that its containers request."""

    scheduled_at: datetime | None = None
    unschedulable_since: datetime | None = None
    deletion_due_at: datetime | None = None
    """When it should be gone, its grace over; None unless it is being deleted."""

    is_gated: bool = False
    is_ready: bool = False
    restarts: int = 0
    waiting_reason: str = ""
    """Why its scheduling or its container does not go on, in Kubernetes' words."""

    waiting_message: str = ""
    termination: Termination | None = None
    """The last end of its container, also when it runs again."""

    others_trouble: str = ""
    """What is wrong with containers that somebody else put into the pod; empty: nothing known."""

    restart_hash: str = ""
    """What it was started with; empty: an earlier release made it."""

    affinity_nodes: frozenset[str] = frozenset()
    """The nodes that its affinity names, while it waits for one of them; empty: any."""

    selected_hostname: str = ""
    """The one that its gate was lifted for, if any."""

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
    """A HetRLPlan: one that the operator made for a job, or one that somebody else wrote."""

    name: str
    uid: str
    made_for: str = ""
    """The uid of the job that the operator made it for; empty: somebody else wrote it."""

    planned_for: str
    """Digest of the planning fields that it answers; empty where somebody else wrote it."""

    key: str
    """Digest of everything that it was made from; where somebody else wrote it, of its uid."""

    plan: Plan
    created_at: datetime
    left_out: str = ""
    """The nodes that it could not be made with, and why."""

    replaces: str = ""
    """The plan that it took the place of, if the job ran by one."""

    replaces_because: str = ""
    """Why it did; empty: an earlier release made it, or somebody else."""

    fleet: str = ""
    """Digest of the fleet that it was made for; empty: an earlier release made it."""

    active_for: str = ""
    """The name of the job that runs by it, as it says itself."""

    replaced_at: datetime | None = None
    """Since when the job that it was made for does not follow it; None: it may."""

    @property
    def is_past(self) -> bool:
        """Whether it is kept only to be looked at, or to be gone back to."""
        return self.replaced_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadablePlan:
    """A HetRLPlan that somebody wrote, and that means nothing."""

    name: str
    uid: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InsufficientFreeGpus:
    """The job fits the fleet, but not what other jobs leave free of it."""

    reasons: tuple[str, ...]
    held_gpus: int
    """By other jobs."""

    full: tuple[str, ...] = ()
    """Machines that are left out because the scheduler finds no room on them, a line a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """What a job that runs could do instead on the fleet as it is now."""

    current: Prediction
    """What the plan in force is expected to do there."""

    plans: tuple[Plan, ...]
    """Those that move less first: other rollouts beside the same trainers, then anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerError:
    """The planner ended without an answer."""

    reason: str
    """A reason of condition Planned."""

    message: str


Answer = Plan | Alternatives | Infeasible | InsufficientFreeGpus | PlannerError


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningSeen:
    """Where planning for this job stands."""

    spec_key: str
    """Digest of the planning fields as they are now."""

    key: str
    """Digest of the planning fields and of the fleet that is free for this job now."""

    is_running: bool = False
    answer: Answer | None = None
    """The last answer for these planning fields; None where there is none."""

    answer_key: str = ""
    """What the answer was made from."""

    answer_base: str = ""
    """What the answer is for; empty for a job that has no plan."""

    answer_fleet: str = ""
    """Digest of the fleet that it was made for."""

    answered_at: datetime | None = None
    """When the answer came; None where there is none."""

    num_failures: int = 0
    """How often in a row the planner ended without an answer to this."""

    left_out: str = ""
    """The nodes that the answer could not count with, and why."""

    is_reserved: bool = False
    """Whether the ledger holds the plan's GPUs for this job."""

    conflict: str = ""
    """Why the plan's GPUs cannot be reserved now; empty when they can, or are."""

    holds_manual_plan: bool = False
    """Whether what the ledger holds for this job is just what the plan that it names takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesSeen:
    """What is wrong with the machines of a plan."""

    lost: Mapping[str, datetime] = field(default_factory=dict)
    """Those that are gone or do not answer, and since when."""

    leaving: Mapping[str, str] = field(default_factory=dict)
    """Those on which the job's pods cannot stay, and why."""

    full: Mapping[str, "FullMachine"] = field(default_factory=dict)
    """Those that pods of the job wait for, and that have had no room for them for some time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullMachine:
    """A machine that the scheduler finds no room on for pods that are pinned to it."""

    pods: tuple[str, ...]
    """Names of the pods that wait for it, sorted."""

    roles: frozenset[Role]
    """Their roles."""

    words: str
    """Why, in the scheduler's words."""

    gpus: int
    """GPUs that the smallest of these pods requests, where GPUs are what lacks; else 0."""

    def __str__(self) -> str:
        """Complete the machine's name to a sentence."""
        more = len(self.pods) - _MOST_PODS_NAMED
        names = ", ".join(self.pods[:_MOST_PODS_NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"has no room for {names}: {self.words}"


_MOST_PODS_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FullMachinesSeen:
    """Where a job's pods find no room, and what planning makes of it."""

    full: Mapping[str, FullMachine] = field(default_factory=dict)
    """Machines that pods of the job wait for in vain, by name."""

    since: datetime | None = None
    """When a job that does not run first found no room since all of its pods had nodes."""

    next_at: datetime | None = None
    """When this may change though nothing else happens; None: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSeen:
    """The machines, prices and links that concern a job, whoever holds them."""

    key: str = ""
    """Digest of them; empty where nobody asks."""

    differs_since: datetime | None = None
    """When they were first seen to differ from what the plan was made for; None: they do not."""


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
    """One consistent look at a job."""

    job: JobSeen
    planning: PlanningSeen
    plans: tuple[PlanSeen, ...] = ()
    """Those that were made for the job, and those of others that it names or has named."""

    unreadable: tuple[UnreadablePlan, ...] = ()
    """Those of others that it names and that mean nothing."""

    children: tuple[ChildSeen, ...] = ()
    pods: tuple[PodSeen, ...] = ()
    hostnames: Mapping[str, str] = field(default_factory=dict)
    """Of the plan's machines: node name to its ``kubernetes.io/hostname`` label."""

    lost_nodes: Mapping[str, datetime] = field(default_factory=dict)
    """Of the plan's machines: those that are gone or do not answer, and since when."""

    leaving: Mapping[str, str] = field(default_factory=dict)
    """Of the plan's machines: those on which the job's pods cannot stay, and why."""

    full_machines: FullMachinesSeen = field(default_factory=FullMachinesSeen)
    fleet: FleetSeen = field(default_factory=FleetSeen)
    progress: ProgressSeen | None = None
    refused_write: RefusedWrite | None = None
    queueing: QueueingSeen = field(default_factory=QueueingSeen)

    @property
    def nodes(self) -> NodesSeen:
        """What is wrong with the plan's machines."""
        return NodesSeen(lost=self.lost_nodes, leaving=self.leaving, full=self.full_machines.full)
