"""The planner's one public function: from a fleet and a job to a plan or the reasons against it."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.known_dimensions import similar_known_models
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Infeasible, Outcome, Plan
from hetrl_planner.explain.bound import bound_on
from hetrl_planner.explain.infeasible import reasons_against
from hetrl_planner.explain.rejected import rejected
from hetrl_planner.layout.to_plan import prediction, replica_groups
from hetrl_planner.phase1.space import Space, space_of
from hetrl_planner.problem.gc_tuning import rare_collections
from hetrl_planner.problem.goals import goal_of
from hetrl_planner.problem.usable_machines import usable_machines
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.registry import STRATEGIES
from hetrl_planner.strategies.search_result import SearchResult


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

    strategy = STRATEGIES[job.planning.strategy]
    # 2. Describe the space
    for space in _spaces(snapshot, job, runnable_only=runnable_only):
        context = SearchContext(
            space=space,
            goal=goal_of(job),
            seed=job.planning.seed,
            should_stop=should_stop,
            evaluations=evaluations,
            job=job,
        )
        # 3. Search
        result = strategy.plan(context)
        if result:
            # 4. Explain
            return _explained(result, context, job)
    whole = space_of(snapshot, job, runnable_only=runnable_only)
    return Infeasible(reasons=reasons_against(whole, job, context.goal, context.searcher))


def _refusals(job: JobSpec) -> tuple[str, ...]:
    if job.model.architecture:
        return ()
    return (
        f"the dimensions of model {job.model.source} are not known: give "
        "model.architecture, or a source whose config.json can be read"
        f"{similar_known_models(job.model)}",
    )


def _spaces(snapshot: ClusterSnapshot, job: JobSpec, *, runnable_only: bool) -> Iterator[Space]:
    """Yield the space to search, and a wider one in case that it holds no plan."""
    fleet = usable_machines(snapshot, job.resources)
    space = space_of(fleet, job, runnable_only=runnable_only)
    yield space
    if space.work.generation_apart:
        yield space_of(fleet, job, runnable_only=runnable_only, may_be_apart=False)


def _explained(result: SearchResult, context: SearchContext, job: JobSpec) -> Plan:
    """Return the plan with its gap to the best bound known, and the rejected alternatives."""
    found = Plan(
        strategy=job.planning.strategy,
        groups=replica_groups(result.evaluation, context.evaluator),
        prediction=prediction(result.evaluation, context.space.work),
        gap=_gap(result, context),
        ended_by="work" if result.is_complete else "time",
        seed=job.planning.seed,
    )
    return replace(found, rejected=rejected(result.alternatives, found, context.goal))


def _gap(result: SearchResult, context: SearchContext) -> float | None:
    known = bound_on(context.space, context.goal, window_seconds=result.evaluation.step_seconds)
    value = context.objective.value(result.evaluation)
    return max(0.0, 1 - known.value / value) if known and value else None
