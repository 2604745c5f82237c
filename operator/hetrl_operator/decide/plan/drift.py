"""Whether a running job's plan still answers what it was made for.

Asked twice in a round: before observing, because what a new plan would be made from is dear
to digest, and while deciding. Whether a better plan is worth the move is ``adoption``'s.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from hetrl_api.job.lifecycle import FailureAction
from hetrl_core.plan.pod_sets import PodSet, pod_sets
from hetrl_core.task import Role
from hetrl_operator.model.conditions import holds
from hetrl_operator.model.observed import FleetSeen, JobSeen, NodesSeen, PlanSeen
from hetrl_operator.model.reasons import ConditionType, ReplanOutcome, ReplanReason

if TYPE_CHECKING:
    from datetime import datetime

SETTLE_SECONDS = 5.0
"""From a change of the fleet to the search: nodes seldom come or go alone. Ours."""

_FINAL = frozenset({ReplanOutcome.UNCHANGED, ReplanOutcome.TOO_LITTLE, ReplanOutcome.NO_PLAN})
"""What is not asked again for the same fleet: the answer would be the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Why a plan should give way to another."""

    reason: str
    """A ``ReplanReason``."""

    why: str
    base: str
    """The plan and what made it doubtful: answers for another base are not for this."""

    keeps_trainer: bool
    """Whether trainers should stay where they are if they can."""

    @property
    def must_pay(self) -> bool:
        """Whether another plan is only moved to where that pays."""
        return self.reason == ReplanReason.FLEET_CHANGED


def drift(
    job: JobSeen,
    plan: PlanSeen,
    *,
    spec_key: str,
    nodes: NodesSeen,
    fleet: FleetSeen,
    now: "datetime",
) -> Drift | None:
    """Return why a plan should give way; None where it should not.

    Args:
        job: whose plan it is.
        plan: the plan in force.
        spec_key: digest of the planning fields as they are now.
        nodes: what is wrong with the plan's machines.
        fleet: what another plan would be made for.
        now: the time.
    """
    if job.parsed is None:
        return None
    if asked := _asked_by_rule(job, plan):
        return Drift(
            reason=ReplanReason.FAILURE_RULE,
            why="a rule of spec.failurePolicy asks for another plan",
            base=f"{plan.name}/{asked.isoformat()}",
            keeps_trainer=False,
        )
    if found := _machines_gone(job, plan, nodes, now):
        return found
    if plan.planned_for != spec_key:
        return Drift(
            reason=ReplanReason.SPEC_CHANGED,
            why="the spec has changed",
            base=plan.name,
            keeps_trainer=True,
        )
    if next_search_at(job, plan, fleet, now) != now:
        return None
    return Drift(
        reason=ReplanReason.FLEET_CHANGED,
        why="the fleet has changed",
        base=f"{plan.name}/fleet",
        keeps_trainer=True,
    )


def next_search_at(
    job: JobSeen, plan: PlanSeen, fleet: FleetSeen, now: "datetime"
) -> "datetime | None":
    """Return when something better may be looked for, now at the earliest.

    None where nobody would: the fleet is the plan's, the job does not run or does not want it, or
    the last answer for this fleet would come again.
    """
    if job.parsed is None or fleet.differs_since is None or not plan.fleet:
        return None
    replan, last = job.parsed.written.planning.replans, job.status.last_replan
    if not replan.on_node_change or not holds(job.status, ConditionType.RUNNING):
        return None
    cooldown = timedelta(seconds=max(replan.cooldown_seconds, SETTLE_SECONDS))
    times = [fleet.differs_since + timedelta(seconds=SETTLE_SECONDS), plan.created_at + cooldown]
    if last and last.time >= plan.created_at:
        is_about_this = last.fleet_hash == fleet.key and last.plan == plan.name
        if is_about_this and last.outcome in _FINAL:
            return None
        # One that was adopted and is not in force yet was refused half-way: no time to lose.
        if not (is_about_this and last.outcome == ReplanOutcome.ADOPTED):
            times.append(last.time + cooldown)
    return max(now, *times)


def _machines_gone(job: JobSeen, plan: PlanSeen, nodes: NodesSeen, now: "datetime") -> Drift | None:
    assert job.parsed
    limit = timedelta(seconds=job.parsed.written.failure_policy.node_lost_seconds)
    lost = {name for name, since in nodes.lost.items() if now - since >= limit}
    sets = pod_sets(plan.plan)
    used = sorted((lost | nodes.leaving.keys() | nodes.full.keys()) & _machines(sets))
    if not used:
        return None
    trains = _machines(each for each in sets if each.role is Role.TRAINER)
    return Drift(
        reason=_reason(used, lost, nodes),
        why=", ".join(_why(name, lost, nodes) for name in used),
        base=f"{plan.name}/{','.join(used)}",
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
    """Tell whether trainers on a machine must move: from a full one only those that wait for it."""
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
