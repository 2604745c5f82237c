"""Cost-time frontier: plans of which none is both cheaper and faster than another."""

from collections.abc import Callable
from dataclasses import replace

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec, MaximiseThroughput
from hetrl_core.plan.plan import Infeasible, Outcome, Plan
from hetrl_planner.phase1.iterate import Searcher
from hetrl_planner.phase1.space import space_of
from hetrl_planner.plan_job import never, plan
from hetrl_planner.problem.goals import ANY_STEP_SECONDS, Cheapest


def frontier(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    *,
    points: int = 8,
    should_stop: Callable[[], bool] = never,
    runnable_only: bool = False,
    evaluations: int | None = None,
) -> tuple[Plan, ...] | Infeasible:
    """Return up to ``points`` plans from the cheapest to the fastest, cheapest first.

    Budgets lie at equal ratios between the price of the cheapest plan of phase 1 and that of the
    fastest plan within the job's own limits. Each is searched as a plan of its own.
    """
    job = replace(job, planning=replace(job.planning, objective=MaximiseThroughput()))

    def best(budget: float | None) -> Outcome:
        limited = replace(job.resources, budget_dollars_per_hour=budget)
        return plan(
            snapshot,
            replace(job, resources=limited),
            should_stop=should_stop,
            runnable_only=runnable_only,
            evaluations=evaluations,
        )

    fastest = best(job.resources.budget_dollars_per_hour)
    if isinstance(fastest, Infeasible):
        return fastest
    space = space_of(snapshot, job, runnable_only=runnable_only)
    cheapest = Searcher(should_stop=should_stop, seed=job.planning.seed).best(
        space, Cheapest(ANY_STEP_SECONDS)
    )
    low = cheapest.choice.dollars_per_hour if cheapest else 0.0
    high = fastest.prediction.dollars_per_hour
    found = [fastest]
    if 0 < low < high:
        ratio = (high / low) ** (1 / (points - 1))
        outcomes = (best(low * ratio**number * (1 + 1e-9)) for number in range(points - 1))
        found += [each for each in outcomes if isinstance(each, Plan)]
    return not_outdone(found)


def not_outdone(plans: list[Plan]) -> tuple[Plan, ...]:
    """Return the plans that no other beats in price and rate, cheapest first."""
    ranked = sorted(
        plans,
        key=lambda each: (each.prediction.dollars_per_hour, -each.prediction.samples_per_second),
    )
    kept: list[Plan] = []
    for each in ranked:
        if not kept or each.prediction.samples_per_second > kept[-1].prediction.samples_per_second:
            kept.append(each)
    return tuple(kept)
