"""What we saw of one job and everything around it, as frozen values.

``observe`` makes these from Kubernetes objects; deciding and rendering read nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hetrl_api.job import JobSpec as WrittenSpec
from hetrl_api.status import JobStatus
from hetrl_core.job import JobSpec
from hetrl_core.plan import Infeasible, Plan
from hetrl_core.task import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a job asks, as it was written and as the core understands it."""

    written: WrittenSpec
    spec: JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    """A HetRLJob: its identity, what it asks, and the status that it shows."""

    namespace: str
    name: str
    uid: str
    generation: int
    created_at: datetime
    is_deleting: bool = False
    wish: Wish | None
    """None where the spec cannot be worked on; ``problem`` says why."""

    problem: str = ""
    status: JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSeen:
    """A StatefulSet, Service or ConfigMap of the job's names."""

    kind: str
    name: str
    uid: str
    owner_uid: str
    spec_hash: str = ""
    identity: str = ""
    """What names the job's certificates were issued for; on the Service only."""

    is_deleting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    """How a container ended last."""

    exit_code: int
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
    is_deleting: bool = False
    is_gated: bool = False
    is_ready: bool = False
    restarts: int = 0
    waiting_reason: str = ""
    """Why its scheduling or its container does not go on, in Kubernetes' words."""

    waiting_message: str = ""
    termination: Termination | None = None
    """The last end of its container, also when it runs again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSeen:
    """A HetRLPlan that the operator made for this job."""

    name: str
    uid: str
    planned_for: str
    """Digest of the planning fields that it answers."""

    key: str
    """Digest of everything that it was made from."""

    plan: Plan
    created_at: datetime
    left_out: str = ""
    """The nodes that it could not be made with, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupied:
    """The job fits the fleet, but not what other jobs leave free of it."""

    reasons: tuple[str, ...]
    held_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerTrouble:
    """The planner ended without an answer."""

    reason: str
    """A reason of condition Planned."""

    message: str


Answer = Plan | Infeasible | Occupied | PlannerTrouble


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

    left_out: str = ""
    """The nodes that the answer could not count with, and why."""

    is_reserved: bool = False
    """Whether the ledger holds the plan's GPUs for this job."""

    conflict: str = ""
    """Why the plan's GPUs cannot be reserved now; empty when they can, or are."""


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
class WriteTrouble:
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
    children: tuple[ChildSeen, ...] = ()
    pods: tuple[PodSeen, ...] = ()
    hostnames: Mapping[str, str] = field(default_factory=dict)
    """Of the plan's machines: node name to its ``kubernetes.io/hostname`` label."""

    progress: ProgressSeen | None = None
    trouble: WriteTrouble | None = None
