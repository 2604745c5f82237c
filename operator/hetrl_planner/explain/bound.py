"""A bound that no layout passes, and the scarcity of resources, by a linear relaxation.

GPUs may share their time among tasks in any fraction, nothing waits for anything, weights
travel in no time and no message is sent but inside a replica. What remains is arithmetic,
HBM, memory and the staleness bound, so every layout of the space is also a solution here: the
optimum is a bound for all searches, and its dual values are the worth of one more GPU.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulp

from hetrl_core.plan.plan import Recompute
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.cost import compute
from hetrl_planner.cost.network import AT_ONCE
from hetrl_planner.cost.rollouts import most_in_flight, useful_seconds
from hetrl_planner.cost.shard import Shard
from hetrl_planner.cost.training import PROXIMAL_PASSES
from hetrl_planner.phase1.candidates import RolloutCandidate
from hetrl_planner.phase1.space import Space
from hetrl_planner.problem.goals import Cheapest, Fastest, FewestGpus, Goal, Limits
from hetrl_planner.problem.sites import Site
from hetrl_planner.problem.workload import Workload

SHADOW_STEP = 1.0
"""GPUs by which a count is varied for the dual values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A value that no layout passes."""

    value: float
    """Seconds of a step, dollars an hour or GPUs, by the goal."""

    gpu_worth: Mapping[str, float]
    """By site, the share by which the bound moves for one GPU more there."""

    budget_worth: float
    """The same for one dollar an hour more."""


def bound_on(space: Space, goal: Goal, *, window_seconds: float = float("inf")) -> Bound | None:
    """Return the bound on a goal, ``None`` if not even the relaxation meets the limits.

    ``window_seconds`` is a step that some layout is known to reach. Only layouts that are no slower
    need a bound then, and the shorter a step is, the fewer trajectories may run.
    """
    if not isinstance(goal, Fastest):
        window_seconds = goal.step_seconds
    work = space.work
    relaxed = _Relaxation(work, space.sites, space.rollouts, space.limits, window_seconds)
    if not isinstance(goal, Fastest):
        return relaxed.cheapest(goal)
    shared = relaxed.fastest(work.tasks)
    if shared is None or not work.is_synchronous:
        return shared
    # In a synchronous step the phases follow one another, each with all GPUs at best.
    phases = [relaxed.fastest(phase) for phase in _phases(work)]
    in_turn = sum(phase.value for phase in phases if phase)
    if in_turn <= shared.value:
        return shared
    return _in_turn([phase for phase in phases if phase], in_turn)


def _phases(work: Workload) -> list[tuple[Task, ...]]:
    scoring = tuple(
        task
        for task in work.tasks
        if task not in TRAINING_TASKS and task is not Task.ACTOR_GENERATION
    )
    training = tuple(task for task in work.tasks if task in TRAINING_TASKS)
    return [phase for phase in ((Task.ACTOR_GENERATION,), scoring, training) if phase]


def _in_turn(phases: Sequence[Bound], total: float) -> Bound:
    names = {name for phase in phases for name in phase.gpu_worth}
    return Bound(
        value=total,
        gpu_worth={
            name: sum(phase.value * phase.gpu_worth.get(name, 0.0) for phase in phases) / total
            for name in names
        },
        budget_worth=sum(phase.value * phase.budget_worth for phase in phases) / total,
    )


class _Relaxation:
    """The linear program over fractions of GPUs."""

    def __init__(
        self,
        work: Workload,
        sites: Sequence[Site],
        rollouts: Sequence[RolloutCandidate],
        limits: Limits,
        window_seconds: float,
    ) -> None:
        self._work = work
        self._window_seconds = window_seconds
        self._sites = sites
        self._rollouts = rollouts
        self._limits = limits

    def fastest(self, tasks: Sequence[Task]) -> Bound | None:
        """Return the bound on the seconds in which a batch passes these tasks."""
        program = pulp.LpProblem("bound", pulp.LpMaximize)
        rate = program.add_variable("rate", 0)
        self._constrain(program, tasks, rate)
        program.setObjective(rate)
        if not _solve(program):
            return None
        best = float(rate.value())
        if best <= 0:
            return None
        return Bound(
            value=self._work.batch_size / best,
            gpu_worth=self._worth(program, best),
            budget_worth=_dual(program, "budget") / best,
        )

    def cheapest(self, goal: Cheapest | FewestGpus) -> Bound | None:
        """Return the bound on the price of a required pace."""
        program = pulp.LpProblem("bound", pulp.LpMinimize)
        rate = program.add_variable("rate", self._work.batch_size / goal.step_seconds)
        taken = self._constrain(program, self._work.tasks, rate)
        price = pulp.lpSum(
            (1.0 if isinstance(goal, FewestGpus) else site.kind.dollars_per_hour) * gpus
            for site, gpus in zip(self._sites, taken, strict=True)
        )
        program.setObjective(price)
        if not _solve(program):
            return None
        best = float(pulp.value(price))
        return Bound(
            value=best,
            gpu_worth={
                name: -worth for name, worth in self._worth(program, max(best, 1e-9)).items()
            },
            budget_worth=0.0,
        )

    def _constrain(
        self, program: pulp.LpProblem, tasks: Sequence[Task], rate: pulp.LpVariable
    ) -> list[pulp.LpVariable]:
        taken = [
            program.add_variable(f"gpus_{number}", 0) for number, site in enumerate(self._sites)
        ]
        used: list[list[pulp.LpVariable]] = [[] for _ in self._sites]
        for task in tasks:
            done = (
                self._generation(program, used)
                if task is Task.ACTOR_GENERATION
                else self._arithmetic(program, task, used)
            )
            program += done >= rate, f"{task} keeps the pace"
        for number, (site, gpus) in enumerate(zip(self._sites, taken, strict=True)):
            program += pulp.lpSum(used[number]) <= gpus, f"time of site {number}"
            program += gpus <= site.num_gpus, f"site {number}"
        self._limit(program, taken)
        return taken

    def _limit(self, program: pulp.LpProblem, taken: Sequence[pulp.LpVariable]) -> None:
        limits = self._limits
        if limits.budget_dollars_per_hour is not None:
            price = pulp.lpSum(
                site.kind.dollars_per_hour * gpus
                for site, gpus in zip(self._sites, taken, strict=True)
            )
            program += price <= limits.budget_dollars_per_hour, "budget"
        if limits.max_gpus is not None:
            program += pulp.lpSum(taken) <= limits.max_gpus, "maxGPUs"
        pools = {site.pool: site.max_gpus for site in self._sites if site.max_gpus is not None}
        for pool, most in sorted(pools.items()):
            here = [
                gpus for site, gpus in zip(self._sites, taken, strict=True) if site.pool == pool
            ]
            program += pulp.lpSum(here) <= most, f"pool {pool}"

    def _arithmetic(
        self, program: pulp.LpProblem, task: Task, used: list[list[pulp.LpVariable]]
    ) -> pulp.LpAffineExpression:
        """Return the rate of scoring or training: FLOPs, and nothing else."""
        done = []
        for number, site in enumerate(self._sites):
            gpus = program.add_variable(f"{task}_{number}", 0)
            used[number].append(gpus)
            done.append(gpus / self._seconds(task, site))
        return pulp.lpSum(done)

    def _seconds(self, task: Task, site: Site) -> float:
        """Return the seconds of one trajectory on one GPU at its peak FLOPS."""
        model, tokens = self._work.architecture, self._work.sample_tokens
        whole = Shard(
            architecture=model, tensor=1, num_layers=model.num_layers, is_first=True, is_last=True
        )
        if task in TRAINING_TASKS:
            return compute.training_seconds(
                whole,
                site.kind,
                tokens=tokens,
                recompute=Recompute.NONE,
                forward_only_passes=PROXIMAL_PASSES if task is Task.ACTOR_TRAINING else 0,
            )
        flops = compute.forward_flops(whole, tokens=tokens, context_tokens=tokens / 2)
        return compute.flop_seconds(flops, site.kind)

    def _generation(
        self, program: pulp.LpProblem, used: list[list[pulp.LpVariable]]
    ) -> pulp.LpAffineExpression:
        """Return generation's rate: fractions of replicas, below their tangents."""
        rates, places = [], []
        for index, candidate in enumerate(self._rollouts):
            replicas = program.add_variable(f"replicas_{index}", 0)
            place = program.add_variable(f"places_{index}", 0)
            rate = program.add_variable(f"rate_{index}", 0)
            program += place <= self._most_at_once(candidate) * replicas
            for line in candidate.tangents:
                program += rate <= line.intercept * replicas + line.slope * place
            used[self._sites.index(candidate.site)].append(candidate.split.num_gpus * replicas)
            rates.append(rate)
            places.append(place)
        program += pulp.lpSum(places) <= self._most_running, "running"
        return pulp.lpSum(rates)

    def _most_at_once(self, candidate: RolloutCandidate) -> float:
        if self._work.is_synchronous:
            return candidate.max_concurrency
        return candidate.concurrency_within(
            useful_seconds(self._work, AT_ONCE, window_seconds=self._window_seconds)
        )

    @property
    def _most_running(self) -> float:
        work = self._work
        if work.is_synchronous:
            return work.most_running
        side_seconds = sum(
            work.batch_size / sum(site.num_gpus / self._seconds(task, site) for site in self._sites)
            for task in work.training_side
        )
        share = side_seconds / self._window_seconds
        return most_in_flight(work, training_side_share=share)

    def _worth(self, program: pulp.LpProblem, best: float) -> dict[str, float]:
        return {
            site.name: SHADOW_STEP * _dual(program, f"site {number}") / best
            for number, site in enumerate(self._sites)
        }


def _solve(program: pulp.LpProblem) -> bool:
    program.solve(pulp.HiGHS(msg=False, threads=1))
    return bool(program.status == pulp.LpStatusOptimal)


def _dual(program: pulp.LpProblem, name: str) -> float:
    row = program.get_constraint_by_name(name.replace(" ", "_"))
    return abs(float(row.pi)) if row is not None and row.pi is not None else 0.0
