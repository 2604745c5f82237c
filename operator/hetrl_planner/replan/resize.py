"""Another number of rollouts, or other machines for them, beside trainers that stay.

A running job's trainers hold hours of state; its rollouts come and go within seconds. So the
replicas that stand keep their places in the plan, those on machines that are gone get other
ones, and the cost model says where one more does most good and where one less does least harm.
Inference workers stay as well.
"""

from collections.abc import Callable
from dataclasses import replace

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan
from hetrl_planner.plan_job import never
from hetrl_planner.replan.moves import larger, mended, num_replicas, smaller
from hetrl_planner.replan.pricing import RolloutPricer, Rollouts, sides

STEPS = 8
"""In so many steps the number is changed: each asks the cost model about every way to go. Ours."""


def resize_rollouts(
    plan: Plan,
    snapshot: ClusterSnapshot,
    job: JobSpec,
    *,
    should_stop: Callable[[], bool] = never,
) -> Plan | None:
    """Return a plan with the same trainers and the rollouts that a job asks for now.

    Args:
        plan: what runs.
        snapshot: the machines that the job may use, its own among them.
        job: how many rollouts there are to be; where it does not say, as many as there are.
        should_stop: asked again and again; once true, nothing is returned.

    Returns:
        The plan; None where trainers and inference workers cannot stay, or the rollouts do not
        fit beside them.
    """
    parted = sides(plan)
    if parted is None:
        return None
    staying, rollouts = parted
    target = _target(job, num_replicas(rollouts))
    asked = replace(job, rollout=replace(job.rollout, replicas=target))
    pricer = RolloutPricer.of(staying, snapshot, asked)
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
    """Return the rollouts with as many replicas as asked for; None where they do not fit."""
    if any(number < 0 for number in pricer.free(()).values()):
        return None
    found = mended(pricer, rollouts)
    difference = target - num_replicas(found)
    at_once = max(1, abs(difference) // STEPS)
    while (difference := target - num_replicas(found)) and not should_stop():
        number = min(at_once, abs(difference))
        ways = larger(pricer, found, number) if difference > 0 else smaller(found, number)
        scored = [
            (pricer.score_of_any_number(each), order, each) for order, each in enumerate(ways)
        ]
        if not scored and number > 1:
            at_once = 1
            continue
        if not scored:
            return None
        found = min(scored)[2]
    return found if num_replicas(found) == target else None
