"""Playoff: the finalists run in the simulator, and the fastest one wins.

The cost model counts averages. Under a tight staleness bound, chance decides how much arrives too
late, which the simulator shows: of two plans with nearly equal predictions, the one with more room
may be much faster.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from hetrl_core.job.spec import JobSpec, Strategy
from hetrl_core.plan.plan import Plan
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.to_plan import prediction, replica_groups
from hetrl_planner.problem.fleet_size import MostGpus
from hetrl_planner.problem.goals import Fastest
from hetrl_planner.simulator.pipeline.compile import compile_plan
from hetrl_planner.simulator.simulate import simulate
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.search_result import SearchResult

MOST_FINALISTS = 12
"""Ours: simulating one takes about a tenth of a second."""

WORTH_PLAYING = 1.25
"""Predicted step, over the best, up to which a plan may win. Ours."""

QUICKER = {True: 0.97, False: 0.8}
"""Played step, over the predicted one, below which hardly any is: synchronous steps leave little
to chance, asynchronous ones more. Ours, as seen on HetRL's fleet in four scenarios."""

WORTH_TAKING = 0.97
"""Played step, over that of the best prediction, from which another is taken. Ours."""

STEPS = 8
"""Versions played; the first few are not measured."""

PLAYED = 7
"""Offset that makes the simulated lengths differ from those of the job's own seed."""


def play_off(result: SearchResult, context: SearchContext) -> SearchResult:
    """Return the finalist that is fastest in the simulator, if a whole job asks for short steps."""
    if context.job is None or not isinstance(context.goal, Fastest):
        return result
    if context.evaluator.devices.num_gpus > MostGpus.PLAYED or context.should_stop():
        return result
    finalists = [each for each in result.finalists if not context.objective.excess(each)]
    best = fastest_simulated(
        [result.evaluation, *finalists], context.evaluator, context.job, seed=context.seed
    )
    return replace(result, evaluation=best)


def fastest_simulated(
    finalists: Sequence[Evaluation], evaluator: Evaluator, job: JobSpec, *, seed: int
) -> Evaluation:
    """Return the finalist with the shortest simulated steps; the first if they hardly differ.

    ``finalists`` are ranked by prediction here; one is played only if it could win.
    """
    ranked = sorted(finalists, key=lambda each: each.step_seconds)
    first = ranked[0]
    rivals = [
        each
        for number, each in enumerate(ranked[1:], start=1)
        if each.step_seconds <= WORTH_PLAYING * first.step_seconds
        and all(each.layout != other.layout for other in ranked[:number])
    ]
    # Neighbours in the ranking are alike: those that are left out lie between others.
    apart = max(1, ceil(len(rivals) / (MOST_FINALISTS - 1)))
    rivals = rivals[apart - 1 :: apart]
    if not rivals:
        return first

    def played_seconds(each: Evaluation) -> float:
        generator = np.random.default_rng((seed, PLAYED))
        return step_seconds(each, evaluator, job, generator=generator)

    best, least = first, WORTH_TAKING * played_seconds(first)
    for rival in rivals:
        if QUICKER[evaluator.work.is_synchronous] * rival.step_seconds >= least:
            break
        played = played_seconds(rival)
        if played < least:
            best, least = rival, played
    return best


def step_seconds(
    found: Evaluation, evaluator: Evaluator, job: JobSpec, *, generator: np.random.Generator
) -> float:
    """Return the mean time of a step of a plan, played for ``STEPS`` versions."""
    plan = Plan(
        strategy=Strategy.AUTO,
        groups=replica_groups(found, evaluator),
        prediction=prediction(found, evaluator.work),
    )
    pipeline = compile_plan(plan, job, evaluator.devices.snapshot)
    return simulate(pipeline, steps=STEPS, generator=generator).step_seconds.mean
