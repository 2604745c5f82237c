"""Plans and the state of planning of one job, as frozen values."""

from dataclasses import dataclass
from datetime import datetime

from hetrl_core.plan.plan import Infeasible, Plan, Prediction


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

    is_running: bool = False
    answer: Answer | None = None
    """The last answer for these planning fields; None if there is none."""

    answer_key: str = ""
    """Digest of the answer's inputs."""

    is_outdated: bool = False
    """Whether these inputs have changed. It is not computed for a plan that is about to be
    reserved: the reservation fails if its GPUs are gone."""

    answer_request_id: str = ""
    """Identity of the request that was answered, or is being answered; empty: the first plan."""

    answer_fleet: str = ""
    """Digest of the answer's fleet."""

    answered_at: datetime | None = None
    """When the answer came; None if there is none."""

    num_failures: int = 0
    """Consecutive failures of the planner for this request."""

    left_out: str = ""
    """The nodes that the answer could not use, and why."""

    is_reserved: bool = False
    """Whether the job has reserved GPUs, or claimed those of a plan that was just found."""

    conflict: str = ""
    """Why the plan's GPUs cannot be reserved now; empty if they can be, or are."""

    holds_manual_plan: bool = False
    """Whether the job's reservation equals the GPUs of its manual plan."""

    @property
    def offered_plans(self) -> tuple[Plan, ...]:
        """The plans in the answer."""
        if isinstance(self.answer, Plan):
            return (self.answer,)
        return self.answer.plans if isinstance(self.answer, Alternatives) else ()
