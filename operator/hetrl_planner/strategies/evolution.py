"""Runs of HetRL's evolution: their groupings, starts and numbers of evaluations.

``hetrl`` searches; the strategies decide when.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.hetrl.genome.groupings import Grouping
from hetrl_planner.hetrl.search.genome_of import genome_of
from hetrl_planner.hetrl.search.regroup import parted
from hetrl_planner.hetrl.search.search import search
from hetrl_planner.phase1.choice import Choice
from hetrl_planner.phase1.to_layout import layout_of
from hetrl_planner.problem.fleet_size import MostGpus
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.search_result import SearchResult, better

EVALUATIONS = 1100
"""Evaluations on a fleet that is searched whole. Ours."""

EVALUATIONS_PER_GPU = 60
"""On small fleets, for each grouping: there is no more to find."""

LEAST_EVALUATIONS = 60
"""Also on large fleets, where one costs much and the search starts from a tile's plan. Ours."""

APART_SHARE = 0.2
"""Share of extra evaluations for plans that run with more groups than necessary, on all but small
fleets, given a plan with few groups to start from. Ours: with one budget for all, some plans
became slower."""


def evolve_all(
    context: SearchContext,
    first: SearchResult | None,
    others: Sequence[Choice] = (),
    *,
    share: float = 1.0,
) -> SearchResult | None:
    """Evolve plans of every grouping.

    If plans must run, the promising groupings come first and get all evaluations: they win
    more often.
    """
    if not context.space.runnable_only:
        return evolve(context, context.groupings, first, others, share=share)
    few = _promising(context, first)
    more = [each for each in context.groupings if each not in few]
    found = evolve(context, few, first, others, share=share)
    if not more:
        return found
    share *= APART_SHARE if found and not context.is_small else 1.0
    return evolve(context, more, _parted(context, found, more), share=share)


def evolve(
    context: SearchContext,
    arms: Sequence[Grouping],
    first: SearchResult | None,
    others: Sequence[Choice] = (),
    *,
    share: float = 1.0,
) -> SearchResult | None:
    """Return the better of a result and the one that evolution finds from it and others."""
    evaluations = int(share * effort(context, len(arms)))
    if not evaluations:
        return first
    if context.should_stop():
        return first and replace(first, is_complete=False)
    evolved = search(
        context.evaluator,
        context.objective,
        arms,
        evaluations=evaluations,
        rng=np.random.default_rng(context.seed),
        should_stop=context.should_stop,
        seeds=_seeds(context, first, others),
        runnable_only=context.space.runnable_only,
    )
    if evolved is None:
        return first
    found = SearchResult(
        evaluation=evolved.evaluation,
        is_complete=evolved.is_complete,
        finalists=evolved.finalists,
    )
    return better(first, found, context.objective)


def effort(context: SearchContext, num_arms: int) -> int:
    """Return the number of layouts that may be priced for so many groupings."""
    num_gpus = context.evaluator.devices.num_gpus
    if context.evaluations is not None:
        return context.evaluations
    if num_gpus > MostGpus.EVOLVED:
        return 0
    if context.is_large:
        return LEAST_EVALUATIONS
    return max(LEAST_EVALUATIONS, min(EVALUATIONS_PER_GPU * num_gpus * num_arms, EVALUATIONS))


def _promising(context: SearchContext, first: SearchResult | None) -> list[Grouping]:
    """Return the grouping of a result for which all groupings were compared.

    On small fleets, and without a result: all tasks together, and generation apart.
    """
    if first and not context.is_small:
        return [_genome_of(context, first).grouping]
    return [each for each in context.groupings if len(each) == 1 or each == context.disjoint]


def _parted(
    context: SearchContext, found: SearchResult | None, arms: Sequence[Grouping]
) -> SearchResult | None:
    """Return a result with starts of other groupings derived from it."""
    if found is None:
        return None
    apart = (each for each in found.others if each.grouping == context.disjoint)
    begun = dict.fromkeys([_genome_of(context, found), *islice(apart, 1)])
    devices = context.evaluator.devices
    starts = (each for genome in begun for arm in arms for each in parted(genome, arm, devices))
    return replace(found, others=(*found.others, *starts))


def _seeds(
    context: SearchContext, first: SearchResult | None, others: Sequence[Choice]
) -> tuple[Genome, ...]:
    devices, tasks = context.evaluator.devices, context.space.work.tasks
    layouts = (layout_of(choice, devices) for choice in others)
    genomes = (genome_of(layout, devices, tasks=tasks) for layout in layouts)
    known = [*first.others, _genome_of(context, first)] if first else []
    seeds = dict.fromkeys([*known, *genomes])
    return tuple(each for each in seeds if each.grouping in context.groupings)


def _genome_of(context: SearchContext, found: SearchResult) -> Genome:
    devices, tasks = context.evaluator.devices, context.space.work.tasks
    return genome_of(found.evaluation.layout, devices, tasks=tasks)
