"""The playoff of finalists in the simulator: the fastest one wins."""

from dataclasses import replace

import numpy as np
import pytest

from hetrl_core.job.algorithm import AlgorithmSpec, Mode
from hetrl_core.job.spec import JobSpec
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.phase1.space import space_of
from hetrl_planner.plan_job import never, plan
from hetrl_planner.problem.goals import Fastest
from hetrl_planner.strategies import playoff
from hetrl_planner.strategies.auto import Auto
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.homogeneous import Homogeneous
from hetrl_planner.strategies.playoff import fastest_simulated, play_off, step_seconds
from hetrl_planner.strategies.search_result import SearchResult
from tests.builders import a_fleet, a_job, both

FLEET = both(a_fleet(a100=4, l40s=4, gpus_per_machine=4), a_fleet(l4=4, region="far"))
JOB = a_job("Qwen3-1.7B", algorithm=AlgorithmSpec(mode=Mode.ASYNC, max_staleness=1))


def a_context(job: JobSpec) -> SearchContext:
    return SearchContext(
        space=space_of(FLEET, job, runnable_only=False),
        goal=Fastest(),
        seed=1,
        should_stop=never,
        evaluations=120,
    )


def finalists() -> tuple[list[Evaluation], Evaluator]:
    context = a_context(JOB)
    result = Auto().plan(context)
    assert result is not None
    assert result.evaluation in result.finalists
    return list(result.finalists), context.evaluator


@pytest.mark.slow
def test_none_of_those_played_is_faster_than_the_one_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    found, evaluator = finalists()
    played: dict[int, float] = {}

    def noted(
        each: Evaluation, on: Evaluator, job: JobSpec, *, generator: np.random.Generator
    ) -> float:
        played[id(each)] = step_seconds(each, on, job, generator=generator)
        return played[id(each)]

    monkeypatch.setattr(playoff, "step_seconds", noted)
    best = fastest_simulated(found, evaluator, JOB, seed=1)

    assert len(played) > 1
    assert played[id(best)] <= min(played.values()) / playoff.WORTH_TAKING
    least = min(each.step_seconds for each in found)
    assert best.step_seconds <= playoff.WORTH_PLAYING * least


@pytest.mark.slow
def test_single_finalist_is_taken_unplayed() -> None:
    evaluations, evaluator = finalists()
    assert fastest_simulated(evaluations[:1], evaluator, JOB, seed=1) is evaluations[0]


@pytest.mark.slow
def test_seed_fixes_the_choice() -> None:
    first, second = (plan(FLEET, JOB, evaluations=120) for _ in range(2))
    assert first == second


@pytest.mark.slow
def test_finalist_beyond_the_budget_is_not_taken() -> None:
    found, _ = finalists()
    fastest = min(found, key=lambda each: each.step_seconds)
    one_kind = Homogeneous().plan(a_context(JOB))
    assert one_kind is not None
    affordable = one_kind.evaluation.dollars_per_hour
    assert affordable < fastest.dollars_per_hour
    job = a_job("Qwen3-1.7B", algorithm=JOB.algorithm, budget=affordable)
    result = SearchResult(evaluation=one_kind.evaluation, is_complete=True, finalists=tuple(found))
    taken = play_off(result, replace(a_context(job), job=job)).evaluation
    assert taken.dollars_per_hour <= affordable
