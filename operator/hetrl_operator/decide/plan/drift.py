"""Drift of a running job's plan: reasons why another plan should replace it.

``replan_cost`` says whether a better plan is worth the move.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from hetrl_api.job.lifecycle import FailureAction
from hetrl_core.plan.pod_sets import PodSet
from hetrl_core.task import Role
from hetrl_operator.model.conditions import holds
from hetrl_operator.model.observed import FleetSeen, JobSeen, NodesSeen, Observed
from hetrl_operator.model.planning import PlanSeen
from hetrl_operator.model.reasons import ConditionType, ReplanOutcome, ReplanReason

if TYPE_CHECKING:
    from datetime import datetime

SETTLE_SECONDS = 5.0
"""Delay from a change of the fleet to the search, since nodes seldom change alone; our choice."""

_FINAL = frozenset({ReplanOutcome.UNCHANGED, ReplanOutcome.TOO_LITTLE, ReplanOutcome.NO_PLAN})
"""Outcomes after which the same fleet is not searched again: the answer would be the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A reason to replace a plan by another."""

    reason: str
    """A ``ReplanReason``."""

    why: str
    request_id: str
    """Identity of the request for another plan. It names the active plan and its problem, so that
    an answer to an earlier request does not apply."""

    keeps_trainer: bool
    """Whether trainers should keep their machines if possible."""

    @property
    def must_pay(self) -> bool:
        """Whether another plan is adopted only if the gain pays for the move."""
        return self.reason == ReplanReason.FLEET_CHANGED


def drift(seen: Observed, plan: PlanSeen, now: "datetime") -> Drift | None:
    """Return why another plan should replace the active one; None if none should."""
    if found := machine_drift(seen, plan, now):
        return found
    if plan.planned_for != seen.planning.spec_key:
        return Drift(
            reason=ReplanReason.SPEC_CHANGED,
            why="the spec has changed",
            request_id=plan.name,
            keeps_trainer=True,
        )
    search_at = next_search_at(seen.job, plan, seen.fleet, now)
    if search_at is None or search_at > now:
        return None
    return Drift(
        reason=ReplanReason.FLEET_CHANGED,
        why="the fleet has changed",
        request_id=f"{plan.name}/fleet",
        keeps_trainer=True,
    )


def machine_drift(seen: Observed, plan: PlanSeen, now: "datetime") -> Drift | None:
    """Return why a plan should be replaced whatever the spec: a failure rule, or its machines."""
    if asked := _asked_by_rule(seen.job, plan):
        return Drift(
            reason=ReplanReason.FAILURE_RULE,
            why="a rule of spec.failurePolicy asks for another plan",
            request_id=f"{plan.name}/{asked.isoformat()}",
            keeps_trainer=False,
        )
    return _machines_gone(seen, plan, now)


def next_search_at(
    job: JobSeen, plan: PlanSeen, fleet: FleetSeen, now: "datetime"
) -> "datetime | None":
    """Return when a search for a better plan may start, now at the earliest.

    None if no search is needed: the fleet has not changed, the job does not run or disables replans
    on changes, or the last answer for this fleet is final.
    """
    if job.parsed is None or fleet.differs_since is None or not plan.fleet:
        return None
    replan, last = job.parsed.written.planning.effective_replan, job.status.last_replan
    if not replan.on_node_change or not holds(job.status, ConditionType.RUNNING):
        return None
    cooldown = timedelta(seconds=max(replan.cooldown_seconds, SETTLE_SECONDS))
    times = [fleet.differs_since + timedelta(seconds=SETTLE_SECONDS), plan.created_at + cooldown]
    if last and last.time >= plan.created_at:
        is_about_this = last.fleet_hash == fleet.key and last.plan == plan.name
        if is_about_this and last.outcome in _FINAL:
            return None
        # An adopted plan that is not active yet could not be written; it is tried again at once.
        if not (is_about_this and last.outcome == ReplanOutcome.ADOPTED):
            times.append(last.time + cooldown)
    return max(now, *times)


def _machines_gone(seen: Observed, plan: PlanSeen, now: "datetime") -> Drift | None:
    assert seen.job.parsed
    nodes, sets = seen.nodes, seen.pod_sets
    limit = timedelta(seconds=seen.job.parsed.written.failure_policy.node_lost_seconds)
    lost = {name for name, since in nodes.lost.items() if now - since >= limit}
    used = sorted((lost | nodes.leaving.keys() | nodes.full.keys()) & _machines(sets))
    if not used:
        return None
    trains = _machines(each for each in sets if each.role is Role.TRAINER)
    return Drift(
        reason=_reason(used, lost, nodes),
        why=", ".join(_why(name, lost, nodes) for name in used),
        request_id=f"{plan.name}/{','.join(used)}",
        keeps_trainer=not any(
            name in trains and _loses_trainers(name, lost, nodes) for name in used
        ),
    )


def _reason(used: Iterable[str], lost: Collection[str], nodes: NodesSeen) -> str:
    if any(name in lost for name in used):
        return ReplanReason.NODE_LOST
    if any(name in nodes.leaving for name in used):
        return ReplanReason.NODE_LEAVING
    return ReplanReason.NODE_FULL


def _why(name: str, lost: Collection[str], nodes: NodesSeen) -> str:
    if name in lost:
        return f"{name} does not answer"
    return (
        f"{name}: {nodes.leaving[name]}" if name in nodes.leaving else f"{name} {nodes.full[name]}"
    )


def _loses_trainers(name: str, lost: Collection[str], nodes: NodesSeen) -> bool:
    """Tell whether trainers on a machine must move; on a full one, only those that wait for it."""
    if name in lost or name in nodes.leaving:
        return True
    return Role.TRAINER in nodes.full[name].roles


def _machines(sets: Iterable[PodSet]) -> set[str]:
    return {name for each in sets for name in each.machines}


def _asked_by_rule(job: JobSeen, plan: PlanSeen) -> "datetime | None":
    asked = [
        each.time
        for each in job.status.recent_restarts
        if each.action == FailureAction.REPLAN and each.time >= plan.created_at
    ]
    return max(asked, default=None)
