"""The combined result of a job's policies.

``running`` and ``stopping`` select the policies, and ``job`` makes the status from the result.
"""

from dataclasses import dataclass

from hetrl_api.job.status import LastReplan, PreflightStatus
from hetrl_core.plan.pod_sets import PodSet, pod_sets
from hetrl_core.task import Role
from hetrl_operator.decide.pods.restarts import Restarts
from hetrl_operator.model.actions import Action, Event
from hetrl_operator.model.conditions import Finding, condition
from hetrl_operator.model.observed import Observed
from hetrl_operator.model.planning import PlanSeen
from hetrl_operator.model.reasons import ConditionType, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDecision:
    """Findings for the status, actions, events, and when to reconcile again."""

    findings: tuple[Finding, ...]
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    plan: PlanSeen | None = None
    sets: tuple[PodSet, ...] = ()
    running: frozenset[Role] = frozenset()
    replan: LastReplan | None = None
    """The result of a search for another plan, if it is new."""

    restarts: Restarts | None = None
    """The job's restarts; None if failures are not checked, and the status keeps its records."""

    preflight: PreflightStatus | None = None
    """The preflight, if it has changed."""

    wake_after: tuple[float | None, ...] = ()


def sets_of(plan: PlanSeen | None) -> tuple[PodSet, ...]:
    """Return the pod sets that a plan wants."""
    return pod_sets(plan.plan) if plan else ()


def acceptance(reason: str, message: str) -> Finding:
    """Return condition Accepted."""
    return Finding(
        type=ConditionType.ACCEPTED,
        holds=reason == Reason.VALID,
        reason=reason,
        message=message or "the spec can be worked on",
    )


def as_before(seen: Observed, type_: str) -> Finding | None:
    """Return a condition of the present status as a finding; None if it was never set."""
    known = condition(seen.job.status, type_)
    if known is None:
        return None
    return Finding(
        type=type_, holds=known.status == "True", reason=known.reason, message=known.message
    )
