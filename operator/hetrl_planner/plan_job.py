"""The planner's one public function: a fleet and a job in, a plan or the reasons why not out."""

from collections.abc import Callable

from hetrl_core.cluster import ClusterSnapshot
from hetrl_core.job import (
    AlgorithmType,
    JobSpec,
    MaximiseThroughput,
    MeetDeadline,
    MinimiseCost,
    Strategy,
)
from hetrl_core.plan import Infeasible, Outcome, Plan, Prediction, Rejected
from hetrl_planner.alternatives import alternatives
from hetrl_planner.candidates import rollout_candidates, training_candidates
from hetrl_planner.choice import Choice
from hetrl_planner.explain import reasons_against
from hetrl_planner.milp import Cheapest, Fastest, Goal, Limits
from hetrl_planner.placement import place
from hetrl_planner.search import Found, Searcher, Space
from hetrl_planner.sites import sites
from hetrl_planner.workload import workload


def never() -> bool:
    """Never stop a search: it ends by its own work, and is repeatable."""
    return False


def plan(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    *,
    should_stop: Callable[[], bool] = never,
    runnable_only: bool = False,
) -> Outcome:
    """Decide which GPUs train, which generate, and how each model is split.

    Equal inputs give equal plans as long as ``should_stop`` never says so.

    Args:
        snapshot: the machines that the job may use, and the links between their regions.
        job: the job, with its model's dimensions.
        should_stop: asked again and again; once true, the best plan so far is returned.
        runnable_only: leave out what this release's runtime cannot execute, such as a
            trainer split over several GPUs.

    Returns:
        The plan, or every reason in words why there is none.
    """
    # 1. What cannot be planned at all.
    refusals = _refusals(job)
    if refusals:
        return Infeasible(reasons=refusals)

    # 2. Every way to run one replica, per GPU kind, region and pool.
    space = _space(snapshot, job, runnable_only=runnable_only)
    searcher = Searcher(should_stop=should_stop, seed=job.planning.seed)

    # 3. Phase 1: how many of which, so that the slower side is fastest, or the price least.
    goal = goal_of(job)
    found = _search(space, goal, searcher, strategy=job.planning.strategy)
    if found is None:
        return Infeasible(
            reasons=reasons_against(
                space, job, goal, searcher=searcher, runnable_only=runnable_only
            )
        )

    # 4. On which machines; and what else was possible.
    return Plan(
        strategy=job.planning.strategy,
        groups=place(found.choice),
        prediction=_prediction(found.choice),
        gap=found.gap if found.is_complete else None,
        rejected=_rejected(space, goal, found, searcher),
        ended_by="work" if found.is_complete else "time",
        seed=job.planning.seed,
    )


def goal_of(job: JobSpec) -> Goal:
    """Return what makes a plan of the job good; a deadline is a required step length."""
    match job.planning.objective:
        case MaximiseThroughput():
            return Fastest()
        case MinimiseCost(required_samples_per_second=required):
            return Cheapest(job.algorithm.global_batch_size / required)
        case MeetDeadline(seconds_left=left):
            return Cheapest(left / job.training.steps)


def _refusals(job: JobSpec) -> tuple[str, ...]:
    found = []
    if job.model.architecture is None:
        found.append(
            f"the dimensions of model {job.model.source} are not known: give "
            "model.architecture, or a source whose config.json can be read"
        )
    if job.planning.strategy in {Strategy.HETRL, Strategy.ILP}:
        found.append(
            f"planning.strategy {job.planning.strategy}: this release plans with "
            "Auto, ArealHex or Homogeneous"
        )
    if job.algorithm.type is not AlgorithmType.GRPO:
        found.append(
            f"algorithm.type {job.algorithm.type}: this release plans GRPO, which has no critic"
        )
    return tuple(found)


def _space(snapshot: ClusterSnapshot, job: JobSpec, *, runnable_only: bool) -> Space:
    assert job.model.architecture is not None
    work = workload(job, job.model.architecture)
    here = sites(snapshot, job.resources)
    rollout = job.rollout
    limits = Limits(
        budget_dollars_per_hour=job.resources.budget_dollars_per_hour,
        max_gpus=job.resources.max_gpus,
        min_replicas=rollout.replicas or rollout.min_replicas,
        max_replicas=rollout.replicas or rollout.max_replicas,
    )
    number_is_free = limits.max_replicas is None and limits.min_replicas == 1
    return Space(
        work=work,
        snapshot=snapshot,
        sites=here,
        rollouts=tuple(
            candidate
            for site in here
            for candidate in rollout_candidates(
                site, work, snapshot, runnable_only=runnable_only, merge=number_is_free
            )
        ),
        trainings=tuple(
            candidate
            for site in here
            for candidate in training_candidates(site, work, snapshot, runnable_only=runnable_only)
        ),
        limits=limits,
    )


def _search(space: Space, goal: Goal, searcher: Searcher, *, strategy: Strategy) -> Found | None:
    if strategy is not Strategy.HOMOGENEOUS:
        return searcher.best(space, goal)
    found = [
        each
        for kind in sorted({site.kind.name for site in space.sites})
        if (each := searcher.best(space.only(kind=kind), goal)) is not None
    ]
    if isinstance(goal, Fastest):
        return min(found, key=lambda each: each.choice.step_seconds, default=None)
    return min(found, key=lambda each: each.choice.dollars_per_hour, default=None)


def _prediction(choice: Choice) -> Prediction:
    return Prediction(
        step_seconds=choice.step_seconds,
        generation_seconds=choice.generation_seconds,
        training_seconds=choice.training_seconds,
        weight_sync_seconds=choice.weight_sync_seconds,
        samples_per_second=choice.work.batch_size / choice.step_seconds,
        dollars_per_hour=choice.dollars_per_hour,
        mean_staleness=choice.mean_staleness,
        bottleneck=choice.bottleneck,
    )


def _rejected(space: Space, goal: Goal, found: Found, searcher: Searcher) -> tuple[Rejected, ...]:
    if searcher.should_stop():
        return ()
    return alternatives(space, goal, found.choice, searcher)
