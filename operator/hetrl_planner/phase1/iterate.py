"""The best choice of candidates: the MILP, solved again until it agrees with the costs.

The MILP is linear, and two things are not: a rollout loses its weight synchronisation out
of every step and can use more concurrency the longer the step is, and the trainer's region
decides how long weights take. So it is solved once for each region that could train, and again
with the step length that it found (Dinkelbach's method for ratios), which also keeps its bound
valid.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from hetrl_planner.phase1 import milp
from hetrl_planner.phase1.candidates import (
    RolloutCandidate,
    TrainingCandidate,
    weights_between,
)
from hetrl_planner.phase1.choice import Choice
from hetrl_planner.phase1.milp import Solution
from hetrl_planner.phase1.problem import Problem, most_samples_per_second, price
from hetrl_planner.phase1.space import Space
from hetrl_planner.problem.fleet_size import MostGpus
from hetrl_planner.problem.goals import Cheapest, Fastest, FewestGpus, Goal

MAX_ROUNDS = 6
WORTH_ANOTHER_ROUND = 1e-3
"""Improvement, as a share, below which iterations end."""

COST_ROUNDS = 3
"""Most solutions for a smaller price."""

HASTENING_ROUNDS = 2
"""Most solutions for a shorter step on small fleets; on larger ones evolution uses the time better.
Ours."""

ALIKE = 1.05
"""Ratio of training times up to which one represents the other."""

COST_TOLERANCE = 2e-3
"""Factor by which a step may be longer for a smaller price if the goal is short steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase1Result:
    """The best choice of a search."""

    choice: Choice
    gap: float
    """Share by which some choice could at most be better."""

    is_complete: bool = True
    """Whether the search ended by itself, not by ``should_stop``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Searcher:
    """A search with its stop condition and the solver's seed."""

    should_stop: Callable[[], bool]
    seed: int

    def best(self, space: Space, goal: Goal) -> Phase1Result | None:
        """Return the best choice for a goal, ``None`` if no choice meets the limits."""
        if isinstance(goal, Fastest):
            return self._fastest(space)
        found: list[tuple[Problem, Phase1Result]] = []
        is_complete = True
        for problem in _problems(space):
            if found and self.should_stop():
                is_complete = False
                break
            best = self._cheapest(problem, goal)
            found += [(problem, best)] if best else []
        return _winner(found, goal, is_complete=is_complete)

    def _fastest(self, space: Space) -> Phase1Result | None:
        """Return the fastest choice, solving the problems with the lowest bounds first.

        Problems whose bound is above the best so far are skipped.
        """
        found: list[tuple[Problem, Phase1Result]] = []
        is_complete = True
        least = inf
        for bound, problem in _by_bound(_problems(space)):
            if bound >= least:
                break
            if found and self.should_stop():
                is_complete = False
                break
            best = self._fastest_of(problem, below=least)
            best = best and self._with_shorter_step(problem, best)
            if best:
                found.append((problem, best))
                least = min(least, best.choice.step_seconds)
        won = _winner(found, Fastest(), is_complete=is_complete)
        if won is None:
            return None
        problem = next(problem for problem, each in found if each.choice is won.choice)
        choice = self._at_least_cost(problem, won.choice)
        bound = (1 - won.gap) * won.choice.step_seconds
        return replace(won, choice=choice, gap=max(0.0, 1 - bound / choice.step_seconds))

    def _fastest_of(self, problem: Problem, *, below: float = inf) -> Phase1Result | None:
        """Return the fastest choice of a problem that stays within its budget.

        ``None`` also if its bound shows that no choice has a step below so many seconds. A faster
        step sends weights more often than the program assumed. So the budget is lowered by the
        excess of a choice, until there is none.
        """
        found = self._fastest_unchecked(problem, below=below)
        budget = problem.limits.budget_dollars_per_hour
        tried, rounds = problem, 0
        while found and budget and (over := found.choice.dollars_per_hour - budget) > 1e-9 * budget:
            left = (tried.limits.budget_dollars_per_hour or 0.0) - over
            rounds += 1
            if rounds > MAX_ROUNDS or left <= 0:
                return None
            tried = replace(tried, limits=replace(tried.limits, budget_dollars_per_hour=left))
            again = self._fastest_unchecked(tried, below=below)
            bound = (1 - found.gap) * found.choice.step_seconds
            found = again and replace(again, gap=max(0.0, 1 - bound / again.choice.step_seconds))
        return found

    def _with_shorter_step(self, problem: Problem, found: Phase1Result) -> Phase1Result:
        """Search for shorter steps than the fastest choice has, as far as the bound allows.

        The MILP models work that admission refuses (never in synchronous jobs) only for a
        required step.
        """
        num_gpus = sum(site.num_gpus for site in problem.sites)
        if problem.work.is_synchronous or num_gpus > MostGpus.SMALL:
            return found
        budget = problem.limits.budget_dollars_per_hour
        part = 1 / 2
        for _ in range(HASTENING_ROUNDS):
            if found.gap < WORTH_ANOTHER_ROUND:
                break
            if self.should_stop():
                return replace(found, is_complete=False)
            bound = (1 - found.gap) * found.choice.step_seconds
            wanted = Cheapest((1 - part * found.gap) * found.choice.step_seconds)
            faster, _ = self._in_time(problem, wanted, rounds=COST_ROUNDS)
            if faster is None or (budget and faster.choice.dollars_per_hour > budget):
                part /= 2
                continue
            gap = max(0.0, 1 - bound / faster.choice.step_seconds)
            found = replace(found, choice=faster.choice, gap=gap)
        return found

    def _fastest_unchecked(self, problem: Problem, *, below: float) -> Phase1Result | None:
        best = self._solve(problem, Fastest(), window_seconds=inf)
        if best is None or best.bound >= below:
            return None
        bound = best.bound
        for _ in range(MAX_ROUNDS):
            step = best.choice.step_seconds
            again = self._solve(problem, Fastest(), window_seconds=step)
            if again is None or not again.is_complete:
                break
            bound = max(bound, again.bound)
            if again.choice.step_seconds > step * (1 - WORTH_ANOTHER_ROUND):
                break
            best = again
        return Phase1Result(
            choice=best.choice,
            gap=max(0.0, 1 - bound / best.choice.step_seconds),
            is_complete=best.is_complete,
        )

    def _at_least_cost(self, problem: Problem, fastest: Choice) -> Choice:
        """Return the cheapest choice that is as fast, so that no GPU is paid to wait."""
        wanted = Cheapest(fastest.step_seconds * (1 + COST_TOLERANCE))
        cheaper, _ = self._in_time(problem, wanted, rounds=COST_ROUNDS)
        if cheaper is None or cheaper.choice.dollars_per_hour >= fastest.dollars_per_hour:
            return fastest
        return cheaper.choice

    def _cheapest(self, problem: Problem, goal: Cheapest | FewestGpus) -> Phase1Result | None:
        best, bound = self._in_time(problem, goal, rounds=MAX_ROUNDS)
        if bound is None:
            return None
        if best is not None:
            return _priced(best.choice, goal, bound, is_complete=best.is_complete)
        # The MILP knows nothing of what admission refuses: asked for more than there is, it
        # gives nothing, though the fastest choice may be fast enough.
        fastest = self._fastest_of(problem)
        if fastest is None or fastest.choice.step_seconds > goal.step_seconds:
            return None
        return _priced(fastest.choice, goal, bound, is_complete=fastest.is_complete)

    def _in_time(
        self, problem: Problem, goal: Cheapest | FewestGpus, *, rounds: int
    ) -> tuple[Solution | None, float | None]:
        """Return the best choice that reaches a step, and a bound; neither if none could.

        The MILP's rates are too high, by its tangents and because it does not model admission:
        then rollouts must be faster by as much.
        """
        margin, bound = 1.0, None
        for _ in range(rounds):
            best = self._solve(
                problem, goal, window_seconds=goal.step_seconds, rollout_margin=margin
            )
            if best is None:
                break
            bound = best.bound if bound is None else bound
            if best.choice.step_seconds <= goal.step_seconds:
                return best, bound
            margin *= best.choice.step_seconds / goal.step_seconds * (1 + 1e-4)
        return None, bound

    def _solve(
        self, problem: Problem, goal: Goal, *, window_seconds: float, rollout_margin: float = 1.0
    ) -> Solution | None:
        return milp.solve(
            problem,
            goal,
            window_seconds=window_seconds,
            rollout_margin=rollout_margin,
            should_stop=self.should_stop,
            seed=self.seed,
        )


def _priced(
    choice: Choice, goal: Cheapest | FewestGpus, bound: float, *, is_complete: bool
) -> Phase1Result:
    gap = max(0.0, 1 - bound / price(goal, choice))
    return Phase1Result(choice=choice, gap=gap, is_complete=is_complete)


def _winner(
    found: Sequence[tuple[Problem, Phase1Result]], goal: Goal, *, is_complete: bool
) -> Phase1Result | None:
    """Return the best choice of all problems, with the gap to the lowest of their bounds."""
    if not found:
        return None
    each = [found_here for _, found_here in found]
    winner = min(each, key=lambda one: _order(one.choice, goal))
    lowest = min(_value(one.choice, goal) * (1 - one.gap) for one in each)
    return replace(
        winner,
        gap=max(0.0, 1 - lowest / _value(winner.choice, goal)),
        is_complete=is_complete and all(one.is_complete for one in each),
    )


def _by_bound(problems: Sequence[Problem]) -> list[tuple[float, Problem]]:
    """Return problems with a step that none of their choices goes below, the shortest first."""
    bounded = [(_least_step_seconds(problem), problem) for problem in problems]
    return sorted(bounded, key=lambda each: each[0])


def _least_step_seconds(problem: Problem) -> float:
    """Return the step if all GPUs generated and trained at their best rates."""
    training = min(each.total_seconds for each in problem.trainings)
    generation = problem.work.batch_size / most_samples_per_second(problem)
    return training + generation if problem.work.is_synchronous else max(training, generation)


def _problems(space: Space) -> Sequence[Problem]:
    """Return one problem for each region that could train, or several: see ``_alike``."""
    regions = sorted({candidate.site.region for candidate in space.trainings})
    everywhere = {site.region for site in space.sites}
    return [
        Problem(
            work=space.work,
            sites=space.sites,
            rollouts=rollouts,
            trainings=trainings,
            weights={
                region: weights_between(
                    space.work, space.snapshot, trainer_region=trainer, rollout_region=region
                )
                for region in everywhere
            },
            limits=space.limits,
        )
        for trainer in regions
        for trainings in _alike(space, trainer_region=trainer)
        for rollouts in _reachable(space, trainer_region=trainer)
    ]


def _reachable(space: Space, *, trainer_region: str) -> Iterator[tuple[RolloutCandidate, ...]]:
    """Yield all rollouts, and those near the trainer alone if a link delays all others.

    The MILP prices each rollout by its own link, while groups are as old as their oldest member:
    it may overestimate distant rollouts.
    """
    near = tuple(each for each in space.rollouts if each.site.region == trainer_region)
    if space.rollouts:
        yield space.rollouts
    if near and near != space.rollouts and not space.work.is_synchronous:
        yield near


def _alike(space: Space, *, trainer_region: str) -> Iterator[tuple[TrainingCandidate, ...]]:
    """Yield the trainings of a region, in synchronous jobs in parts of similar duration.

    The time that a synchronous step leaves for generation depends on the chosen training; the
    MILP assumes the shortest one for all.
    """
    here = [each for each in space.trainings if each.site.region == trainer_region]
    here.sort(key=lambda each: each.total_seconds)
    is_one_region = len({each.site.region for each in space.rollouts}) == 1
    if is_one_region or not space.work.is_synchronous:
        yield tuple(here)
        return
    while here:
        longest = here[0].total_seconds * ALIKE
        part = [each for each in here if each.total_seconds <= longest]
        yield tuple(part)
        here = here[len(part) :]


def _value(choice: Choice, goal: Goal) -> float:
    return choice.step_seconds if isinstance(goal, Fastest) else price(goal, choice)


def _order(choice: Choice, goal: Goal) -> tuple[float, float]:
    return (_value(choice, goal), choice.dollars_per_hour)
