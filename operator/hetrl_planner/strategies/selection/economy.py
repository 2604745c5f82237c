"""Cheaper plans that are about as fast: the last per cents of a prediction cost most.

Two plans of one job are priced by the same model with the same errors, so their difference is
known better than either. Within the job's tolerance the cheapest plan is taken, and of plans of
about one price the simplest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hetrl_core.task import TRAINING_TASKS
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import Layout
from hetrl_planner.layout.objective import Objective
from hetrl_planner.phase1.alternatives import Alternative
from hetrl_planner.phase1.to_layout import layout_of
from hetrl_planner.problem.fleet_size import MostGpus
from hetrl_planner.problem.goals import Cheapest, Fastest
from hetrl_planner.strategies.areal_hex import phase_1
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.evolution import evolve
from hetrl_planner.strategies.search_result import SearchResult, better
from hetrl_planner.strategies.selection.playoff import PLAYED, step_seconds

ECONOMY_EFFORT = 0.05
"""Share of evolution's evaluations in search of a cheaper plan. Ours."""

ABOUT_ONE_PRICE = 1.01
"""Price, over the cheapest one's, up to which the simpler plan is taken. Ours."""

MUCH_CHEAPER = 0.8
"""Price, over the plan's, from which a slower plan is worth naming. Ours."""

LITTLE_SLOWER = 1.1
"""Step time, over the plan's, up to which a much cheaper plan is named. Ours."""


@dataclass(frozen=True, slots=True)
class Economy:
    """The plan that is taken, and those between which the user may choose."""

    taken: Evaluation
    fastest: Evaluation | None = None
    """The fastest plan found, where a cheaper one is taken."""

    cheaper: Evaluation | None = None
    """A much cheaper plan that is a little slower, where the job sets no limit."""


def economical(
    found: SearchResult, others: Sequence[Alternative], context: SearchContext
) -> Economy:
    """Return the plan to take instead of the fastest one found."""
    fastest, job = found.evaluation, context.job
    is_whole = job is not None and isinstance(context.goal, Fastest) and context.evaluations != 0
    if job is None or not is_whole or not job.planning.tolerance_percent:
        return Economy(fastest)
    known = [*found.finalists, *_evaluated(others, context)]
    longest = (1 + job.planning.tolerance_percent / 100) * fastest.step_seconds
    known += _searched(context, fastest, longest)
    kept = [each for each in known if not context.objective.excess(each)]
    taken = _simplest(
        [fastest, *(each for each in kept if _is_as_fast(each, fastest, longest, context))],
        context.objective,
    )
    return Economy(
        taken=taken,
        fastest=None if taken is fastest else fastest,
        cheaper=None if _is_limited(context) else _much_cheaper(kept, taken),
    )


def complexity(layout: Layout, objective: Objective) -> tuple[int, int, int]:
    """Return the kinds in one training pipeline, the regions, and the machines of a layout."""
    devices = objective.devices
    trained = (task for task in layout.tasks if task.task in TRAINING_TASKS)
    kinds = max(
        len({devices.kind(devices.gpu_machines[stage.gpus[0]]).name for stage in replica})
        for task in trained
        for replica in task.replicas
    )
    machines = {devices.gpu_machines[gpu] for gpu in layout.gpus}
    return kinds, len({devices.region(each) for each in machines}), len(machines)


def _simplest(plans: Sequence[Evaluation], objective: Objective) -> Evaluation:
    least = min(each.dollars_per_hour for each in plans)
    alike = [each for each in plans if each.dollars_per_hour <= ABOUT_ONE_PRICE * least]
    return min(alike, key=lambda each: (complexity(each.layout, objective), each.step_seconds))


def _much_cheaper(plans: Iterable[Evaluation], taken: Evaluation) -> Evaluation | None:
    return min(
        (
            each
            for each in plans
            if each.step_seconds <= LITTLE_SLOWER * taken.step_seconds
            and each.dollars_per_hour <= MUCH_CHEAPER * taken.dollars_per_hour
        ),
        key=lambda each: each.dollars_per_hour,
        default=None,
    )


def _is_limited(context: SearchContext) -> bool:
    limits = context.space.limits
    return (
        limits.budget_dollars_per_hour is not None
        or limits.max_gpus is not None
        or any(site.max_gpus is not None for site in context.space.sites)
    )


def _evaluated(others: Sequence[Alternative], context: SearchContext) -> list[Evaluation]:
    """Return the alternatives of phase 1 as layouts that fit."""
    layouts = (layout_of(each.choice, context.evaluator.devices) for each in others if each.choice)
    found = (context.evaluator.evaluate(each) for each in layouts)
    return [each for each in found if isinstance(each, Evaluation)]


def _searched(
    context: SearchContext, fastest: Evaluation, longest_seconds: float
) -> tuple[Evaluation, ...]:
    """Return cheaper plans that are about as fast, from a short search for a low price."""
    if context.is_large or context.should_stop():
        return ()
    cheap = replace(
        context,
        goal=Cheapest(longest_seconds),
        effort=ECONOMY_EFFORT * context.effort,
        job=None,
    )
    begun = SearchResult(evaluation=fastest, is_complete=True)
    first = better(begun, phase_1(cheap, cheap.space), cheap.objective)
    found = evolve(cheap, cheap.groupings, first)
    return (found.evaluation, *found.finalists) if found else ()


def _is_as_fast(
    each: Evaluation, fastest: Evaluation, longest_seconds: float, context: SearchContext
) -> bool:
    """Tell whether a plan is within the tolerance, predicted and played with the same lengths."""
    is_near = each.step_seconds <= longest_seconds
    if not is_near or each.dollars_per_hour >= fastest.dollars_per_hour:
        return is_near and each.dollars_per_hour <= fastest.dollars_per_hour
    if context.job is None or context.evaluator.devices.num_gpus > MostGpus.PLAYED:
        return True
    most = longest_seconds / fastest.step_seconds

    def played_seconds(found: Evaluation) -> float:
        assert context.job
        generator = np.random.default_rng((context.seed, PLAYED))
        return step_seconds(found, context.evaluator, context.job, generator=generator)

    return played_seconds(each) <= most * played_seconds(fastest)
