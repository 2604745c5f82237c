"""A new number of rollouts, or new machines for them, beside trainers that stay.

A running job's trainers hold hours of state; its rollouts start within seconds. So running replicas
keep their places in the plan, those on lost machines get others, and the cost model chooses where
to add or remove a replica. Inference workers stay as well.
"""

from collections.abc import Callable
from dataclasses import replace

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan
from hetrl_core.task import Task
from hetrl_planner.plan_job import never
from hetrl_planner.replan.moves import larger, num_replicas, rollouts_beside, smaller
from hetrl_planner.replan.pricing import RolloutPricer, Rollouts

STEPS = 8
"""Steps in which the number changes; each one prices every possible change. Ours."""


def resize_rollouts(
    plan: Plan,
    snapshot: ClusterSnapshot,
    job: JobSpec,
    *,
    should_stop: Callable[[], bool] = never,
) -> Plan | None:
    """Return a plan with the same trainers and the number of rollouts that a job requests.

    Args:
        plan: the current plan.
        snapshot: the machines that the job may use, its own included.
        job: its number of rollouts; without one, the current number is kept.
        should_stop: polled during the search; once true, None is returned.

    Returns:
        The plan; None if trainers and inference workers cannot stay, or the rollouts do not
        fit beside them.
    """
    target = _target(job, num_replicas(plan.groups_with(Task.ACTOR_GENERATION)))
    asked = replace(job, rollout=replace(job.rollout, replicas=target))
    beside = rollouts_beside(plan, snapshot, asked)
    if beside is None:
        return None
    pricer, rollouts = beside
    found = _resized(pricer, rollouts, target, should_stop)
    return pricer.plan(plan, found) if found else None


def _target(job: JobSpec, current: int) -> int:
    rollout = job.rollout
    if rollout.replicas:
        return rollout.replicas
    return max(rollout.min_replicas, min(current, rollout.max_replicas or current))


def _resized(
    pricer: RolloutPricer, rollouts: Rollouts, target: int, should_stop: Callable[[], bool]
) -> Rollouts | None:
    """Return the rollouts with the target number of replicas; None if they do not fit."""
    found = rollouts
    difference = target - num_replicas(found)
    at_once = max(1, abs(difference) // STEPS)
    while (difference := target - num_replicas(found)) and not should_stop():
        number = min(at_once, abs(difference))
        ways = larger(pricer, found, number) if difference > 0 else smaller(found, number)
        best = min(ways, key=pricer.score_of_any_number, default=None)
        if best is not None:
            found = best
        elif number > 1:
            at_once = 1
        else:
            return None
    return found if num_replicas(found) == target else None
