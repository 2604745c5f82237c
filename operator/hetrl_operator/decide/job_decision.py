"""What the policies of one round came to.

Which policies are asked is up to ``running`` and ``stopping``; what status says of it, to ``job``.
"""

from dataclasses import dataclass

from hetrl_api.job.status import LastReplan
from hetrl_core.plan.pod_sets import PodSet, pod_sets
from hetrl_core.task import Role
from hetrl_operator.decide.pods.restarts import Restarts
from hetrl_operator.model.actions import Action, Event
from hetrl_operator.model.conditions import Finding, condition
from hetrl_operator.model.observed import Observed, PlanSeen
from hetrl_operator.model.reasons import ConditionType, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDecision:
    """Findings for status, actions for the cluster, and when to look again."""

    findings: tuple[Finding, ...]
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    plan: PlanSeen | None = None
    sets: tuple[PodSet, ...] = ()
    running: frozenset[Role] = frozenset()
    replan: LastReplan | None = None
    """What came of a search for another plan, where that is news."""

    restarts: Restarts | None = None
    """None where no failure is looked for: status keeps what it has."""

    wake_after: tuple[float | None, ...] = ()


def sets_of(plan: PlanSeen | None) -> tuple[PodSet, ...]:
    """Return the pod sets that a plan wants."""
    return pod_sets(plan.plan) if plan else ()


def acceptance(reason: str, message: str) -> Finding:
    """Return whether the spec can be worked on, and why not."""
    return Finding(
        type=ConditionType.ACCEPTED,
        holds=reason == Reason.VALID,
        reason=reason,
        message=message or "the spec can be worked on",
    )


def as_before(seen: Observed, type_: str) -> Finding | None:
    """Return what status says already, None where it does not."""
    known = condition(seen.job.status, type_)
    if known is None:
        return None
    return Finding(
        type=type_, holds=known.status == "True", reason=known.reason, message=known.message
    )
