"""Phase 1's problem with the trainer in one region, and the order of its choices.

``milp`` solves it, and ``iterate`` orders the problems.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hetrl_planner.cost.network import WeightSync
from hetrl_planner.phase1.candidates import RolloutCandidate, TrainingCandidate
from hetrl_planner.phase1.choice import Choice
from hetrl_planner.problem.goals import DOLLARS_PER_GPU, Cheapest, FewestGpus, Limits
from hetrl_planner.problem.sites import Site
from hetrl_planner.problem.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """All candidates, with the trainer in one region."""

    work: Workload
    sites: tuple[Site, ...]
    rollouts: tuple[RolloutCandidate, ...]
    trainings: tuple[TrainingCandidate, ...]
    weights: Mapping[str, WeightSync]
    """The wait of rollouts for a new version, by their region."""

    limits: Limits


def price(goal: Cheapest | FewestGpus, choice: Choice) -> float:
    """Return the value by which a goal compares choices."""
    training = choice.training
    gpus = training.num_gpus * gpu_price(goal, training.site) + sum(
        share.num_gpus * gpu_price(goal, share.candidate.site) for share in choice.rollouts
    )
    if isinstance(goal, FewestGpus):
        return gpus
    return gpus + choice.egress_dollars_per_hour(goal.step_seconds)


def gpu_price(goal: Cheapest | FewestGpus, site: Site) -> float:
    """Return the weight of one GPU of a site under a goal."""
    return 1.0 if isinstance(goal, FewestGpus) else site.kind.dollars_per_hour + DOLLARS_PER_GPU


def most_samples_per_second(problem: Problem) -> float:
    """Return the rate at which all GPUs together would generate at their best."""
    best: dict[Site, float] = {}
    for candidate in problem.rollouts:
        rate = candidate.samples_per_second(candidate.max_concurrency) / candidate.split.num_gpus
        best[candidate.site] = max(rate, best.get(candidate.site, 0.0))
    return sum(rate * site.num_gpus for site, rate in best.items())
