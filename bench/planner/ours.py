"""HetRL's planner asked for one step's work on a fleet, without a job around it."""

from bench.planner.played import job_of
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import ResourcesSpec, Strategy
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.phase1.space import Space
from hetrl_planner.plan_job import never
from hetrl_planner.problem.goals import Fastest, Goal, Limits
from hetrl_planner.problem.sites import sites
from hetrl_planner.problem.workload import Workload
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.registry import STRATEGIES

NO_LIMITS = Limits(budget_dollars_per_hour=None, max_gpus=None, min_replicas=1, max_replicas=None)


def space(work: Workload, snapshot: ClusterSnapshot, *, limits: Limits = NO_LIMITS) -> Space:
    """Return everything that phase 1 may choose from, as `hetrl plan` does for a job."""
    here = sites(snapshot, ResourcesSpec())
    return Space.of(work, snapshot, here, limits, runnable_only=False)


def plan(
    work: Workload,
    snapshot: ClusterSnapshot,
    *,
    strategy: Strategy = Strategy.AUTO,
    seed: int = 1,
    evaluations: int | None = None,
    goal: Goal | None = None,
    limits: Limits = NO_LIMITS,
) -> Evaluation | None:
    """Return the plan of a strategy, ended by its work; ``None`` if nothing fits."""
    context = SearchContext(
        space=space(work, snapshot, limits=limits),
        goal=goal or Fastest(),
        seed=seed,
        should_stop=never,
        evaluations=evaluations,
        job=job_of(work),
    )
    result = STRATEGIES[strategy].plan(context)
    return result.evaluation if result else None
