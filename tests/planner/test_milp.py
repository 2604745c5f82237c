"""The MILP against an enumeration of its own: every count of every candidate, tried."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product

import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot, Link
from hetrl_core.job.algorithm import Mode
from hetrl_core.job.spec import JobSpec
from hetrl_planner.phase1.candidates import RolloutCandidate
from hetrl_planner.phase1.choice import Choice, RolloutShare
from hetrl_planner.phase1.iterate import Searcher, _problems
from hetrl_planner.phase1.placement import place
from hetrl_planner.phase1.problem import Problem, price
from hetrl_planner.phase1.space import Space, space_of
from hetrl_planner.plan_job import never
from hetrl_planner.problem.goals import Cheapest, Fastest
from tests.builders import a_fleet, a_job, both

SEARCHER = Searcher(should_stop=never, seed=1)


def a_space(fleet: ClusterSnapshot, job: JobSpec) -> Space:
    return space_of(fleet, job, runnable_only=True)


def every_choice(space: Space) -> Iterator[Choice]:
    """Every choice that the GPUs' counts leave room for; limits and places are ignored."""
    for problem in _problems(space):
        for rollouts in every_mix(problem):
            if sum(number for _, number in rollouts) > problem.work.most_running:
                continue
            shares = tuple(
                RolloutShare(candidate=candidate, num_replicas=number)
                for candidate, number in rollouts
            )
            for training in problem.trainings:
                yield Choice(
                    work=problem.work,
                    training=training,
                    rollouts=shares,
                    weights=problem.weights,
                )


def best(
    space: Space, value: Callable[[Choice], float], *, of: Iterable[Choice] | None = None
) -> float | None:
    """The smallest value of a choice within the limits that can really be placed."""
    ranked = sorted(
        (
            (value(choice), number, choice)
            for number, choice in enumerate(every_choice(space) if of is None else of)
        ),
        key=lambda entry: entry[:2],
    )
    for found, _, choice in ranked:
        if within(space, choice) and can_be_placed(choice):
            return found
    return None


def every_mix(problem: Problem) -> Iterator[list[tuple[RolloutCandidate, int]]]:
    """Every number of replicas of every candidate that the GPUs' counts leave room for."""
    ranges = [range(each.site.num_gpus // each.split.num_gpus + 1) for each in problem.rollouts]
    for numbers in product(*ranges):
        mix = list(zip(problem.rollouts, numbers, strict=True))
        fits = all(
            sum(each.split.num_gpus * number for each, number in mix if each.site is site)
            <= site.num_gpus
            for site in problem.sites
        )
        if fits and any(numbers):
            yield [(each, number) for each, number in mix if number]


def within(space: Space, choice: Choice) -> bool:
    budget, most = space.limits.budget_dollars_per_hour, space.limits.max_gpus
    return (budget is None or choice.dollars_per_hour <= budget) and (
        most is None or choice.num_gpus <= most
    )


def can_be_placed(choice: Choice) -> bool:
    try:
        place(choice)
    except ValueError:
        return False
    return True


SLOW = Link(
    source="eu",
    target="us",
    bytes_per_second=0.5e9,
    latency_seconds=0.05,
    egress_dollars_per_gib=0.0005,
)
FLEETS = {
    "one kind": a_fleet(a100=6, gpus_per_machine=4),
    "two kinds": a_fleet(a100=4, l4=3, gpus_per_machine=4),
    "odd machines": a_fleet(a100=3, l4=4, gpus_per_machine=3),
    "single GPUs": a_fleet(l40s=4, a100=2, gpus_per_machine=1),
    "two regions": both(
        a_fleet(a100=2, region="eu"), a_fleet(l4=2, a100=2, region="us"), links=(SLOW,)
    ),
}
JOBS = {
    "async": a_job("Qwen3-0.6B", global_batch_size=64),
    "little in flight": a_job("Qwen3-0.6B", global_batch_size=8, max_staleness=1),
    "sync": a_job("Qwen3-0.6B", mode=Mode.SYNC, global_batch_size=64),
    "budget": a_job("Qwen3-0.6B", global_batch_size=64, budget=8.0),
    "few GPUs": a_job("Qwen3-1.7B", global_batch_size=64, max_gpus=4),
}


SLOW_TO_ENUMERATE = pytest.param("two regions", marks=pytest.mark.slow)
EVERY_FLEET = [SLOW_TO_ENUMERATE if name == "two regions" else name for name in FLEETS]


@pytest.mark.parametrize("fleet", EVERY_FLEET)
@pytest.mark.parametrize("job", JOBS)
def test_fastest_choice_is_found(fleet: str, job: str) -> None:
    space = a_space(FLEETS[fleet], JOBS[job])
    shortest = best(space, lambda choice: choice.step_seconds)

    found = SEARCHER.best(space, Fastest())

    assert shortest is not None
    assert found is not None
    assert within(space, found.choice)
    assert can_be_placed(found.choice)
    assert found.choice.step_seconds <= shortest * 1.01
    # The bound is one: nothing beats it.
    assert found.choice.step_seconds * (1 - found.gap) <= shortest * (1 + 1e-6)


@pytest.mark.parametrize("fleet", EVERY_FLEET)
@pytest.mark.parametrize("mode", list(Mode))
def test_cheapest_choice_at_a_pace_is_found(fleet: str, mode: Mode) -> None:
    space = a_space(FLEETS[fleet], a_job("Qwen3-0.6B", global_batch_size=64, mode=mode))
    choices = list(every_choice(space))
    shortest = best(space, lambda choice: choice.step_seconds, of=choices)
    assert shortest is not None

    for slack in (1.05, 1.7, 4.0):
        goal = Cheapest(slack * shortest)
        enough = [choice for choice in choices if choice.step_seconds <= goal.step_seconds]
        lowest = best(space, partial(price, goal), of=enough)
        found = SEARCHER.best(space, goal)
        assert lowest is not None
        assert found is not None
        assert found.choice.step_seconds <= goal.step_seconds
        assert price(goal, found.choice) <= lowest * 1.01

    assert SEARCHER.best(space, Cheapest(0.98 * shortest)) is None


def test_search_that_is_stopped_keeps_what_it_has() -> None:
    space = a_space(FLEETS["two regions"], JOBS["async"])
    stopped = Searcher(should_stop=lambda: True, seed=1).best(space, Fastest())
    assert stopped is None or not stopped.is_complete
