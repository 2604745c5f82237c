"""Better rollouts for a running job on a changed fleet; its trainers stay.

Hill climbing: of all ways to add, remove or exchange equal replicas, take the best one while it
gains. A new plan may be better than the result, but would move the trainers.
"""

from collections.abc import Callable, Iterator
from itertools import takewhile
from operator import itemgetter

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan, Prediction
from hetrl_planner.layout.objective import Score
from hetrl_planner.layout.to_plan import prediction
from hetrl_planner.plan_job import never
from hetrl_planner.replan.moves import larger, num_replicas, rollouts_beside, smaller
from hetrl_planner.replan.pricing import RolloutPricer, Rollouts, is_split_differently

MOST_STEPS = 32
"""Each at least doubles or halves something, or is one of a few last ones. Ours."""

WORTH_A_STEP = 1e-3
"""Improvement, as a share, below which the climb ends: each step moves pods."""


def improve_rollouts(
    plan: Plan,
    snapshot: ClusterSnapshot,
    job: JobSpec,
    *,
    should_stop: Callable[[], bool] = never,
) -> Plan | None:
    """Return the plan with the same trainers and the best rollouts found.

    Args:
        plan: the current plan.
        snapshot: the machines that the job may use, its own included.
        job: its goal and limits.
        should_stop: polled during the search; once true, the best so far is returned.

    Returns:
        The plan, possibly the current one; None if trainers and inference workers cannot stay
        or no rollouts fit beside them.
    """
    beside = rollouts_beside(plan, snapshot, job)
    if beside is None:
        return None
    pricer, rollouts = beside
    found = _hill_climb(pricer, rollouts, should_stop)
    return pricer.plan(plan, found) if found else None


def predict(plan: Plan, snapshot: ClusterSnapshot, job: JobSpec) -> Prediction | None:
    """Return the prediction of an existing plan on a fleet that may have changed.

    None if the cost model cannot predict it: a machine of the plan is missing, tasks that share
    GPUs are split differently, or some rollouts would be too late for the staleness bound.
    """
    if is_split_differently(plan):
        return None
    pricer = RolloutPricer.of(plan.groups, snapshot, job)
    if not pricer.fits:
        return None
    found = pricer.whole()
    return prediction(found, pricer.space.work) if found else None


def _hill_climb(
    pricer: RolloutPricer, rollouts: Rollouts, should_stop: Callable[[], bool]
) -> Rollouts:
    best = pricer.score(rollouts)
    for _ in range(MOST_STEPS):
        ways = takewhile(lambda _: not should_stop(), _ways(pricer, rollouts))
        scored = ((pricer.score(each), each) for each in ways)
        score, way = min(scored, key=itemgetter(0), default=(best, rollouts))
        if should_stop() or not _is_better(score, best):
            return rollouts
        best, rollouts = score, way
    return rollouts


def _is_better(score: Score, than: Score) -> bool:
    """Tell whether the first figure that differs is smaller by enough."""
    for new, old in zip(score, than, strict=True):
        if abs(new - old) > WORTH_A_STEP * abs(old):
            return new < old
    return False


def _ways(pricer: RolloutPricer, rollouts: Rollouts) -> Iterator[Rollouts]:
    yield from _more(pricer, rollouts)
    for many in _numbers(num_replicas(rollouts)):
        for fewer in smaller(rollouts, many):
            yield fewer
            # Replicas removed in one place may return in another, in any number.
            yield from (each for each in _more(pricer, fewer) if each != rollouts)
    if len(rollouts) == 1:
        yield from _more(pricer, ())


def _more(pricer: RolloutPricer, rollouts: Rollouts) -> Iterator[Rollouts]:
    for many in _numbers(_free_gpus(pricer, rollouts)):
        yield from larger(pricer, rollouts, many)


def _numbers(most: int) -> Iterator[int]:
    number = 1
    while number <= most:
        yield number
        number *= 2


def _free_gpus(pricer: RolloutPricer, rollouts: Rollouts) -> int:
    return sum(left for left in pricer.free(rollouts).values() if left > 0)
