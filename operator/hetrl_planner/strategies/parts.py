"""Short searches of parts of a fleet: one region, one GPU kind, or training on one kind.

A part has fewer layouts, so a short search of it finds what a search of the whole fleet may miss.
The whole fleet's search starts from the results, and the plan is compared with them.
"""

from dataclasses import replace

from hetrl_planner.hetrl.search.genome_of import genome_of
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import renumbered
from hetrl_planner.phase1.alternatives import Alternative
from hetrl_planner.phase1.space import Space
from hetrl_planner.strategies.areal_hex import phase_1
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.evolution import evolve
from hetrl_planner.strategies.ilp import divide_machines
from hetrl_planner.strategies.search_result import SearchResult, better

PART_EFFORT = 0.06
"""Share of evolution's evaluations for each part. Ours."""

MOST_REGIONS = 2
"""Regions that are searched alone, those with most GPUs first. Ours."""


def best_of_regions(context: SearchContext) -> SearchResult | None:
    """Return the best layout within one region, where there are several."""
    regions = context.space.regions
    if not _is_searched(context) or len(regions) == 1:
        return None
    alone = sorted((context.space.only(region=each) for each in regions), key=_num_gpus)
    best: SearchResult | None = None
    for space in alone[: -MOST_REGIONS - 1 : -1]:
        best = better(best, searched(context, space), context.objective)
    return best


def reconsidered(context: SearchContext) -> tuple[tuple[Alternative, ...], SearchResult | None]:
    """Return the alternatives, those without a choice searched by layouts, and the best of these.

    Phase 1's choices are equal copies on one site whose GPUs do all tasks but generation: a part
    of the fleet may hold plans of other forms.
    """
    others: list[Alternative] = []
    best: SearchResult | None = None
    for other in context.alternatives:
        if other.choice or not _is_searched(context):
            others.append(other)
            continue
        space = context.space.trained_on(other.kind) if other.trains_only else other.space
        found = searched(context, space)
        best = better(best, found, context.objective)
        others.append(replace(other, found=found.evaluation if found else None))
    return tuple(others), best


def searched(context: SearchContext, space: Space) -> SearchResult | None:
    """Return a short search's result on a part, as a layout of the whole fleet."""
    if context.should_stop() or not space.sites:
        return None
    part = replace(context, space=space, effort=PART_EFFORT * context.effort, job=None)
    first = phase_1(part, space) or divide_machines(part, is_initial=True)
    return on_whole(evolve(part, part.groupings, first), part, context)


def _is_searched(context: SearchContext) -> bool:
    return context.evaluations != 0 and not context.is_large


def _num_gpus(space: Space) -> int:
    return sum(site.num_gpus for site in space.sites)


def on_whole(
    found: SearchResult | None, part: SearchContext, whole: SearchContext
) -> SearchResult | None:
    """Return a part's result as one of the whole fleet, without its finalists."""
    if found is None or part.objective.excess(found.evaluation):
        return None
    layout = renumbered(found.evaluation.layout, part.evaluator.devices, whole.evaluator.devices)
    evaluation = whole.evaluator.evaluate(layout)
    if not isinstance(evaluation, Evaluation):
        return None
    devices, tasks = whole.evaluator.devices, whole.space.work.tasks
    return SearchResult(
        evaluation=evaluation,
        is_complete=found.is_complete,
        finalists=(evaluation,),
        alternatives=found.alternatives,
        others=(genome_of(layout, devices, tasks=tasks),),
    )
