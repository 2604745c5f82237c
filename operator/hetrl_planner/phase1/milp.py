"""Phase 1 of AReaL-Hex: the numbers of replicas of candidates, as a mixed-integer program.

Reconstructed from the paper's published outline (arXiv 2511.00796): one training plan,
whole numbers of rollout replicas, the slower of both sides as fast as possible, within
counts, budget and the staleness bound; or the cheapest at a required pace. One function
builds, one solves, one reads back. Ours: concurrency is chosen with the counts, and
machines are counted by blocks, so that every choice can be placed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from operator import eq

import pulp

from hetrl_planner.cost.rollouts import most_in_flight, useful_seconds
from hetrl_planner.phase1.candidates import RolloutCandidate
from hetrl_planner.phase1.choice import SECONDS_PER_HOUR, Choice, RolloutShare
from hetrl_planner.phase1.problem import Problem, gpu_price, most_samples_per_second
from hetrl_planner.problem import solver
from hetrl_planner.problem.goals import Cheapest, Fastest, Goal, Limits
from hetrl_planner.problem.sites import SHARE_SIZES, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A solution of the program."""

    choice: Choice
    bound: float
    """No choice has a shorter step, or a smaller ``price``, than this."""

    is_complete: bool
    """Whether the search ended by itself, not by ``should_stop``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    program: pulp.LpProblem
    replicas: tuple[pulp.LpVariable, ...]
    trains: tuple[pulp.LpVariable, ...]


def solve(
    problem: Problem,
    goal: Goal,
    *,
    window_seconds: float,
    should_stop: Callable[[], bool],
    seed: int,
    rollout_margin: float = 1.0,
) -> Solution | None:
    """Return the best choice for a goal, ``None`` if no choice meets the limits.

    ``window_seconds`` is a step length that the best choice is known not to exceed. A
    rollout loses its weight synchronisation out of every step, and may run more at once the
    longer a step is, so a solution's ``bound`` is a bound only for steps up to it.
    ``rollout_margin`` is the factor by which rollouts must be faster than modelled: admission
    sometimes refuses them work, which a linear program does not model.
    """
    model = _build(problem, goal, window_seconds=window_seconds, rollout_margin=rollout_margin)
    is_complete = solver.run(model.program, should_stop=should_stop, seed=seed)
    return _read_back(model, problem, goal, is_complete=is_complete)


def _build(problem: Problem, goal: Goal, *, window_seconds: float, rollout_margin: float) -> _Model:
    program = pulp.LpProblem("phase_1", pulp.LpMinimize)
    replicas = _variables(program, "replicas", len(problem.rollouts), category="Integer")
    places = _variables(program, "places", len(problem.rollouts))
    rates = _variables(program, "rate", len(problem.rollouts))
    trains = _variables(program, "trains", len(problem.trainings), category="Binary")

    program += pulp.lpSum(trains) == 1, "one training plan is chosen"
    for index, candidate in enumerate(problem.rollouts):
        working_share, most_at_once = _use(problem, candidate, window_seconds)
        _bound_rate(
            program,
            candidate,
            index=index,
            working_share=working_share,
            most_at_once=most_at_once,
            replicas=replicas[index],
            places=places[index],
            rate=rates[index],
        )
    _limit_running(program, problem, places, trains, window_seconds=window_seconds)
    _limit_machines(program, problem, replicas, trains)
    _limit_replicas(program, problem.limits, replicas)
    dollars = _weighted(problem, replicas, trains, lambda site: site.kind.dollars_per_hour)
    egress = _egress(program, problem, replicas, window_seconds=window_seconds)
    if problem.limits.budget_dollars_per_hour is not None:
        program += (
            dollars + egress <= problem.limits.budget_dollars_per_hour,
            "the price stays within the budget",
        )
    pace = _sync_pace if problem.work.is_synchronous else _async_pace
    rate = pulp.lpSum(rates) / rollout_margin
    objective = pace(program, problem, goal, rate=rate, trains=trains)
    if not isinstance(goal, Fastest):
        objective = _weighted(problem, replicas, trains, lambda site: gpu_price(goal, site))
    if isinstance(goal, Cheapest):
        objective += egress
    program.setObjective(objective)
    return _Model(program=program, replicas=replicas, trains=trains)


def _use(
    problem: Problem, candidate: RolloutCandidate, window_seconds: float
) -> tuple[float, float]:
    """Return the share of a step in which a candidate works, and its largest timely concurrency."""
    work, weights = problem.work, problem.weights[candidate.site.region]
    if work.is_synchronous:
        generating_seconds = window_seconds - _least_training_seconds(problem)
        working_share = max(0.0, 1 - weights.total_seconds / generating_seconds)
        return working_share, candidate.max_concurrency
    useful = useful_seconds(work, weights, window_seconds=window_seconds)
    working_share = max(0.0, 1 - weights.load_seconds / window_seconds)
    return working_share, candidate.concurrency_within(useful)


def _least_training_seconds(problem: Problem) -> float:
    """Return the part of a synchronous step that generation never has."""
    return min(candidate.total_seconds for candidate in problem.trainings)


def _async_pace(
    program: pulp.LpProblem,
    problem: Problem,
    goal: Goal,
    *,
    rate: pulp.LpAffineExpression,
    trains: tuple[pulp.LpVariable, ...],
) -> pulp.LpAffineExpression:
    """Generation and training run side by side: the slower one's rate is the plan's."""
    pace = program.add_variable("pace", 0)
    program += pace <= rate, "rollouts keep the pace"
    training_rate = pulp.lpSum(
        problem.work.batch_size / candidate.total_seconds * chosen
        for candidate, chosen in zip(problem.trainings, trains, strict=True)
    )
    program += pace <= training_rate, "training keeps the pace"
    if not isinstance(goal, Fastest):
        required = problem.work.batch_size / goal.step_seconds
        program += pace >= required, "the pace reaches the required rate"
    return -pace


def _sync_pace(
    program: pulp.LpProblem,
    problem: Problem,
    goal: Goal,
    *,
    rate: pulp.LpAffineExpression,
    trains: tuple[pulp.LpVariable, ...],
) -> pulp.LpAffineExpression:
    """One after the other: times add up, and generation's is ``B / rate``.

    That is convex in the rate, so its tangents bound it from below as tightly as they are
    dense.
    """
    generation_seconds = program.add_variable("generation_seconds", 0)
    batch = problem.work.batch_size
    for number, at in enumerate(_rate_grid(problem)):
        program += (
            generation_seconds >= 2 * batch / at - batch / at**2 * rate,
            f"generation of a batch takes its time {number}",
        )
    step = generation_seconds + pulp.lpSum(
        candidate.total_seconds * chosen
        for candidate, chosen in zip(problem.trainings, trains, strict=True)
    )
    if not isinstance(goal, Fastest):
        program += step <= goal.step_seconds, "the step is as short as required"
    return step


def _bound_rate(
    program: pulp.LpProblem,
    candidate: RolloutCandidate,
    *,
    index: int,
    working_share: float,
    most_at_once: float,
    replicas: pulp.LpVariable,
    places: pulp.LpVariable,
    rate: pulp.LpVariable,
) -> None:
    """Bound ``y`` replicas' rate with ``s`` places among them, ``y·r(s/y)``, by tangents.

    ``r`` is concave, so ``y·r(s/y)`` is too, and each tangent of ``r`` at ``b`` gives one
    row: ``rate <= (r(b) - b·r'(b))·y + r'(b)·s``. Below one at once a replica has nothing to do
    at times: ``rate <= r(1)·s``.
    """
    program += (
        rate <= working_share * candidate.samples_per_second(1) * places,
        f"candidate {index} generates no faster than one by one",
    )
    program += (
        places <= most_at_once * replicas,
        f"the KV cache of candidate {index} holds what runs, and it is in time",
    )
    for line in candidate.tangents:
        program += (
            rate <= working_share * (line.intercept * replicas + line.slope * places),
            f"candidate {index} generates no faster than with {line.at} at once",
        )


def _egress(
    program: pulp.LpProblem,
    problem: Problem,
    replicas: tuple[pulp.LpVariable, ...],
    *,
    window_seconds: float,
) -> pulp.LpAffineExpression:
    """Return the hourly price of weights into other regions, at the slowest pace allowed.

    A region gets one copy a version if anything generates there.
    """
    once: dict[str, pulp.LpVariable] = {}
    for number, (candidate, chosen) in enumerate(zip(problem.rollouts, replicas, strict=True)):
        region = candidate.site.region
        if not problem.weights[region].egress_dollars:
            continue
        if region not in once:
            once[region] = program.add_variable(f"reaches_{len(once)}", 0, 1, "Binary")
        most = candidate.site.num_gpus // candidate.split.num_gpus
        program += chosen <= most * once[region], f"candidate {number} gets weights"
    versions_per_hour = SECONDS_PER_HOUR / window_seconds
    return pulp.lpSum(
        versions_per_hour * problem.weights[region].egress_dollars * reached
        for region, reached in once.items()
    )


def _limit_running(
    program: pulp.LpProblem,
    problem: Problem,
    places: tuple[pulp.LpVariable, ...],
    trains: tuple[pulp.LpVariable, ...],
    *,
    window_seconds: float,
) -> None:
    work = problem.work
    if work.is_synchronous:
        program += pulp.lpSum(places) <= work.most_running, "no more is running than one batch"
        return
    admitted = pulp.lpSum(
        most_in_flight(work, training_side_share=candidate.total_seconds / window_seconds) * chosen
        for candidate, chosen in zip(problem.trainings, trains, strict=True)
    )
    program += pulp.lpSum(places) <= admitted, "admission counts what is in training too"


def _limit_machines(
    program: pulp.LpProblem,
    problem: Problem,
    replicas: tuple[pulp.LpVariable, ...],
    trains: tuple[pulp.LpVariable, ...],
) -> None:
    def gpus(where: Callable[[Site], bool], *, least_share: int = 1) -> pulp.LpAffineExpression:
        return _weighted(
            problem, replicas, trains, lambda site: float(where(site)), least_share=least_share
        )

    for number, site in enumerate(problem.sites):
        for size in SHARE_SIZES:
            program += (
                gpus(partial(eq, site), least_share=size) <= site.capacity(size),
                f"site {number} has machines for shares of {size} or more",
            )
    limits = {site.pool: site.max_gpus for site in problem.sites if site.max_gpus is not None}
    for pool, max_gpus in sorted(limits.items()):
        program += (
            gpus(partial(_is_in, pool)) <= max_gpus,
            f"pool {pool} gives no more than its maxGPUs",
        )
    if problem.limits.max_gpus is not None:
        program += (
            gpus(lambda _: True) <= problem.limits.max_gpus,
            "the job takes no more than its maxGPUs",
        )


def _is_in(pool: str, site: Site) -> bool:
    return site.pool == pool


def _limit_replicas(
    program: pulp.LpProblem, limits: Limits, replicas: tuple[pulp.LpVariable, ...]
) -> None:
    total = pulp.lpSum(replicas)
    program += total >= limits.min_replicas, "there are at least minReplicas rollouts"
    if limits.max_replicas is not None:
        program += total <= limits.max_replicas, "there are at most maxReplicas rollouts"


def _weighted(
    problem: Problem,
    replicas: tuple[pulp.LpVariable, ...],
    trains: tuple[pulp.LpVariable, ...],
    weight: Callable[[Site], float],
    *,
    least_share: int = 1,
) -> pulp.LpAffineExpression:
    """Return the GPUs taken, each times its site's weight."""
    rollout_gpus = (
        weight(candidate.site) * candidate.split.num_gpus * chosen
        for candidate, chosen in zip(problem.rollouts, replicas, strict=True)
        if candidate.split.share_size >= least_share
    )
    training_gpus = (
        weight(candidate.site) * candidate.num_gpus * chosen
        for candidate, chosen in zip(problem.trainings, trains, strict=True)
        if candidate.split.share_size >= least_share
    )
    return pulp.lpSum(rollout_gpus) + pulp.lpSum(training_gpus)


def _rate_grid(problem: Problem) -> Iterator[float]:
    """Yield rates a tenth apart, from one replica's slowest to all GPUs at their fastest."""
    slowest = min(candidate.samples_per_second(1) for candidate in problem.rollouts)
    fastest = most_samples_per_second(problem)
    for exponent in count():
        rate = slowest * 1.1**exponent
        yield rate
        if rate > fastest:
            return


def _read_back(
    model: _Model, problem: Problem, goal: Goal, *, is_complete: bool
) -> Solution | None:
    if not solver.has_solution(model.program):
        return None
    training = next(
        candidate
        for candidate, chosen in zip(problem.trainings, model.trains, strict=True)
        if round(chosen.value())
    )
    counts = tuple(
        RolloutShare(candidate=candidate, num_replicas=round(chosen.value()))
        for candidate, chosen in zip(problem.rollouts, model.replicas, strict=True)
        if round(chosen.value())
    )
    return Solution(
        choice=Choice(
            work=problem.work,
            training=training,
            rollouts=counts,
            weights=problem.weights,
        ).useful,
        bound=_bound(solver.dual_bound(model.program), problem, goal),
        is_complete=is_complete,
    )


def _bound(dual_bound: float, problem: Problem, goal: Goal) -> float:
    """Turn the solver's bound on its objective into one on seconds or dollars."""
    if not isinstance(goal, Fastest) or problem.work.is_synchronous:
        return max(0.0, dual_bound)
    return problem.work.batch_size / -dual_bound


def _variables(
    program: pulp.LpProblem, name: str, number: int, *, category: str = "Continuous"
) -> tuple[pulp.LpVariable, ...]:
    return tuple(
        program.add_variable(f"{name}_{index}", 0, 1 if category == "Binary" else None, category)
        for index in range(number)
    )
