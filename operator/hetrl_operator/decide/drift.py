"""Whether a running job's plan still answers what it was made for.

Asked twice in a round: before observing, because what a new plan would be made from is dear
to digest, and while deciding.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from hetrl_api.lifecycle import FailureAction
from hetrl_core.podset import pod_sets
from hetrl_core.task import Role
from hetrl_operator.observed import JobSeen, PlanSeen

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Why a plan should give way to another."""

    why: str
    base: str
    """The plan and what made it doubtful: answers for another base are not for this."""

    keeps_trainer: bool
    """Whether trainers should stay where they are if they can."""


def drift(
    job: JobSeen,
    plan: PlanSeen,
    *,
    spec_key: str,
    lost_nodes: Mapping[str, "datetime"],
    now: "datetime",
) -> Drift | None:
    """Return why a plan should give way; None where it should not.

    Args:
        job: whose plan it is.
        plan: the plan in force.
        spec_key: digest of the planning fields as they are now.
        lost_nodes: of the plan's machines those that do not answer, and since when.
        now: the time.
    """
    if job.wish is None:
        return None
    if asked := _asked_by_rule(job, plan):
        return Drift(
            why="a rule of spec.failurePolicy asks for another plan",
            base=f"{plan.name}/{asked.isoformat()}",
            keeps_trainer=False,
        )
    limit = timedelta(seconds=job.wish.written.failure_policy.node_lost_seconds)
    lost = {name for name, since in lost_nodes.items() if now - since >= limit}
    sets = pod_sets(plan.plan)
    used = sorted(lost & {name for each in sets for name in each.machines})
    if used:
        trains = {name for each in sets if each.role is Role.TRAINER for name in each.machines}
        return Drift(
            why=f"{', '.join(used)} does not answer",
            base=f"{plan.name}/{','.join(used)}",
            keeps_trainer=not trains & lost,
        )
    if plan.planned_for != spec_key:
        return Drift(why="the spec has changed", base=plan.name, keeps_trainer=True)
    return None


def _asked_by_rule(job: JobSeen, plan: PlanSeen) -> "datetime | None":
    asked = [
        each.time
        for each in job.status.recent_restarts
        if each.action == FailureAction.REPLAN and each.time >= plan.created_at
    ]
    return max(asked, default=None)
