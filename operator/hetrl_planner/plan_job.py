"""The planner's one public function: from a fleet and a job to a plan or the reasons against it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec, Strategy
from hetrl_core.plan.plan import Infeasible, Outcome, Plan
from hetrl_planner.explain.alternatives import Alternative, alternatives, choices, rejected
from hetrl_planner.explain.bound import bound_on
from hetrl_planner.explain.infeasible import reasons_against
from hetrl_planner.layout.to_plan import prediction, replica_groups
from hetrl_planner.phase1.iterate import Searcher, Space
from hetrl_planner.problem.gc_tuning import rare_collections
from hetrl_planner.problem.goals import Fastest, Limits, goal_of
from hetrl_planner.problem.sites import sites
from hetrl_planner.problem.usable_machines import usable_machines
from hetrl_planner.problem.workload import workload
from hetrl_planner.strategies.auto import Portfolio
from hetrl_planner.strategies.playoff import fastest_simulated
from hetrl_planner.strategies.search_result import SearchResult

MOST_PLAYED_GPUS = 1024
"""Larger fleets have many rollouts, which take long to simulate."""


def never() -> bool:
    """Never stop a search, so that its result is repeatable."""
    return False


@rare_collections()
def plan(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    *,
    should_stop: Callable[[], bool] = never,
    runnable_only: bool = False,
    evaluations: int | None = None,
) -> Outcome:
    """Decide which GPUs train, which generate, and how each model is split.

    Equal inputs give equal plans unless ``should_stop`` ends the search.

    Args:
        snapshot: the machines that the job may use, and the links between their regions.
        job: the job, with its model's dimensions.
        should_stop: polled during the search; once true, the best plan so far is returned.
        runnable_only: leave out what this release's runtime cannot execute, such as tasks that
            share GPUs and are split differently.
        evaluations: layouts that HetRL's search may price; ``None`` leaves it to the size of
            the fleet, and 0 leaves that search out.

    Returns:
        The plan, or every reason why there is none.
    """
    # 1. Reject
    if refusals := _refusals(job):
        return Infeasible(reasons=refusals)

    fleet = usable_machines(snapshot, job.resources)
    for may_be_apart in (True, False):
        # 2. Describe the space
        space = space_of(fleet, job, runnable_only=runnable_only, may_be_apart=may_be_apart)
        portfolio = Portfolio(
            space=space,
            goal=goal_of(job),
            seed=job.planning.seed,
            should_stop=should_stop,
            evaluations=evaluations,
        )
        # 3. Find a first plan
        first, others = _first(portfolio, job)
        # 4. Refine it
        result = portfolio.refine(job.planning.strategy, first, others=choices(others))
        if result or not space.work.generation_apart:
            break
    if result is None:
        whole = space_of(snapshot, job, runnable_only=runnable_only)
        reasons = reasons_against(
            whole,
            job,
            portfolio.goal,
            searcher=_searcher(portfolio, job),
            runnable_only=runnable_only,
        )
        return Infeasible(reasons=reasons)

    # 5. Play the finalists off
    result = run_playoff(result, portfolio, job)

    # 6. Explain
    found = _to_plan(job, portfolio, result)
    return replace(found, rejected=rejected(others, found, portfolio.goal))


def _first(portfolio: Portfolio, job: JobSpec) -> tuple[SearchResult | None, Sequence[Alternative]]:
    """Return a first result within moments, and the alternatives to compare it with."""
    strategy = job.planning.strategy
    first = portfolio.initial(strategy)
    is_compared = first or strategy is Strategy.AUTO
    searcher = _searcher(portfolio, job)
    others = alternatives(portfolio.space, portfolio.goal, searcher) if is_compared else ()
    return first, others


def _searcher(portfolio: Portfolio, job: JobSpec) -> Searcher:
    return Searcher(should_stop=portfolio.should_stop, seed=job.planning.seed)


def run_playoff(result: SearchResult, portfolio: Portfolio, job: JobSpec) -> SearchResult:
    """Return the finalist that is fastest in the simulator, if Auto minimises step time."""
    is_asked = job.planning.strategy is Strategy.AUTO and isinstance(portfolio.goal, Fastest)
    is_large = portfolio.evaluator.devices.num_gpus > MOST_PLAYED_GPUS
    if not is_asked or is_large or portfolio.should_stop():
        return result
    finalists = [each for each in result.finalists if not portfolio.objective.excess(each)]
    best = fastest_simulated(
        [result.evaluation, *finalists], portfolio.evaluator, job, seed=job.planning.seed
    )
    return replace(result, evaluation=best)


def _to_plan(job: JobSpec, portfolio: Portfolio, result: SearchResult) -> Plan:
    return Plan(
        strategy=job.planning.strategy,
        groups=replica_groups(result.evaluation, portfolio.evaluator),
        prediction=prediction(result.evaluation, portfolio.space.work),
        gap=_gap(portfolio, result),
        ended_by="work" if result.is_complete else "time",
        seed=job.planning.seed,
    )


def _gap(portfolio: Portfolio, result: SearchResult) -> float | None:
    """Return the distance from the best bound known on the space that was searched."""
    known = bound_on(portfolio.space, portfolio.goal, window_seconds=result.evaluation.step_seconds)
    value = portfolio.objective.value(result.evaluation)
    return max(0.0, 1 - known.value / value) if known and value else None


def _refusals(job: JobSpec) -> tuple[str, ...]:
    if job.model.architecture:
        return ()
    return (
        f"the dimensions of model {job.model.source} are not known: give "
        "model.architecture, or a source whose config.json can be read",
    )


def space_of(
    snapshot: ClusterSnapshot, job: JobSpec, *, runnable_only: bool, may_be_apart: bool = True
) -> Space:
    """Return the space of a job's plans on a fleet.

    In asynchronous modes generation and training compute at the same time, so runnable plans give
    them separate GPUs, unless ``may_be_apart`` is false.
    """
    assert job.model.architecture is not None
    work = workload(job, job.model.architecture, programs_stay=runnable_only)
    if runnable_only and not work.is_synchronous and may_be_apart:
        # Programs that compute at once on one GPU slow each other by an unknown amount.
        work = replace(work, generation_apart=True)
    here = sites(snapshot, job.resources)
    rollout = job.rollout
    limits = Limits(
        budget_dollars_per_hour=job.resources.budget_dollars_per_hour,
        max_gpus=job.resources.max_gpus,
        min_replicas=rollout.replicas or rollout.min_replicas,
        max_replicas=rollout.replicas or rollout.max_replicas,
    )
    return Space.of(work, snapshot, here, limits, runnable_only=runnable_only)
