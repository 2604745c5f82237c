"""The set partition as a mixed-integer program: columns in, those chosen and a bound out.

Every task is done once, no supply is exceeded, and a phase lasts as long as its slowest column.
Limits are rows, as in phase 1. A choice can be forbidden, so that the next best is found.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pulp

from hetrl_planner.ilp.bundles import Supply
from hetrl_planner.ilp.columns import PHASES, SCORING, TRAINING, Column
from hetrl_planner.problem import solver
from hetrl_planner.problem.goals import DOLLARS_PER_GPU, Cheapest, Fastest, FewestGpus, Goal, Limits

TIE_SECONDS_PER_DOLLAR = 1e-6
"""Weight of the price, so that the cheaper of two equally fast choices wins."""

RELATIVE_GAP = 5e-3
MAX_NODES = 200
"""Of branch and bound, for each choice. Ours: the next choice may be the better one anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChoice:
    """Columns that do every task, each once."""

    columns: tuple[Column, ...]
    bound: float
    """No choice that is not yet forbidden has a shorter step, or a smaller price."""

    is_complete: bool


class Program:
    """A program that chooses among columns repeatedly."""

    def __init__(
        self,
        columns: Sequence[Column],
        supplies: Sequence[Supply],
        num_tasks: Sequence[int],
        *,
        goal: Goal,
        limits: Limits,
        lag_seconds: Callable[[Sequence[str], str], float],
        steps_ahead: float,
    ) -> None:
        """Write the program.

        ``lag_seconds`` returns how long weights take from a trainer in some regions into another;
        ``steps_ahead`` is how many steps that may take, by the staleness bound, 0 where
        every step waits for it.
        """
        self._supplies = supplies
        self._num_tasks = num_tasks
        self._columns = [column for column in columns for _ in range(self._most_copies(column))]
        self._program = pulp.LpProblem("partition", pulp.LpMinimize)
        self._taken = [
            self._program.add_variable(f"column_{number}", cat="Binary")
            for number in range(len(self._columns))
        ]
        self._goal = goal
        seconds = self._add_seconds(self._add_lag(lag_seconds), steps_ahead)
        self._program += self._objective(seconds)
        self._add_partition()
        self._add_limits(limits)
        if not isinstance(goal, Fastest):
            self._program += seconds <= goal.step_seconds, "pace"

    def choose(self, *, should_stop: Callable[[], bool], seed: int) -> ColumnChoice | None:
        """Return the best choice that is not forbidden, ``None`` if there is none."""
        is_complete = solver.run(
            self._program,
            should_stop=should_stop,
            seed=seed,
            relative_gap=RELATIVE_GAP,
            max_nodes=MAX_NODES,
        )
        if not solver.has_solution(self._program):
            return None
        taken = self._taken_now()
        return ColumnChoice(
            columns=tuple(self._columns[number] for number in taken),
            bound=solver.dual_bound(self._program),
            is_complete=is_complete,
        )

    def forbid(self, chosen: Sequence[Column]) -> None:
        """Leave the trainer and the generator of a choice out, as a pair.

        The program lacks only the transfers between these two; all else of the pair is known.
        """
        pair = {column for column in chosen if column.generates or column.trains_actor}
        taken = [
            taken
            for taken, column in zip(self._taken, self._columns, strict=True)
            if column in pair
        ]
        if len(taken) == len(pair):
            self._program += pulp.lpSum(taken) <= len(taken) - 1

    def leave_out(self, *, from_seconds: float) -> None:
        """Leave out columns that alone take a step as long as this."""
        for taken, column in zip(self._taken, self._columns, strict=True):
            if column.busy_seconds >= from_seconds:
                taken.upBound = 0

    def _taken_now(self) -> list[int]:
        return [number for number, taken in enumerate(self._taken) if round(taken.value() or 0)]

    def _most_copies(self, column: Column) -> int:
        """Return the most copies of a column that fit at once."""
        by_tasks = min(
            most // count for most, count in zip(self._num_tasks, column.kind, strict=True) if count
        )
        by_supply = min(
            supply.most_units // units
            for supply, units in zip(self._supplies, column.bundle, strict=True)
            if units
        )
        return min(by_tasks, by_supply)

    def _objective(self, seconds: pulp.LpAffineExpression) -> pulp.LpAffineExpression:
        dollars, gpus = self._sum(self._dollars_per_hour), self._sum(self._num_gpus)
        match self._goal:
            case Fastest():
                return seconds + TIE_SECONDS_PER_DOLLAR * dollars
            case Cheapest():
                return dollars + DOLLARS_PER_GPU * gpus
            case FewestGpus():
                return gpus

    def _add_partition(self) -> None:
        for number, count in enumerate(self._num_tasks):
            if count:
                done = self._sum([column.kind[number] for column in self._columns])
                self._program += done == count
        for number, supply in enumerate(self._supplies):
            used = self._sum([column.bundle[number] for column in self._columns])
            self._program += used <= supply.most_units

    def _add_limits(self, limits: Limits) -> None:
        budget = limits.budget_dollars_per_hour
        if budget is not None:
            self._program += self._sum(self._dollars_per_hour) <= budget, "budget"
        if limits.max_gpus is not None:
            self._program += self._sum(self._num_gpus) <= limits.max_gpus, "gpus"

    def _sum(self, weights: Sequence[float]) -> pulp.LpAffineExpression:
        """Return the weights of the columns that are taken, added up."""
        return pulp.LpAffineExpression(
            (taken, weight) for taken, weight in zip(self._taken, weights, strict=True) if weight
        )

    @property
    def _dollars_per_hour(self) -> list[float]:
        return [column.dollars_per_hour for column in self._columns]

    @property
    def _num_gpus(self) -> list[int]:
        return [column.num_gpus for column in self._columns]

    # Seconds

    def _add_seconds(self, lag: pulp.LpVariable, steps_ahead: float) -> pulp.LpAffineExpression:
        """Return a step's length, with the rows that hold it down."""
        if steps_ahead:
            step = self._program.add_variable("step", 0)
            self._add_longest(step, [column.busy_seconds for column in self._columns])
            # Trajectories must be done, fetched and scored while the bound still allows it.
            scoring = self._program.add_variable("scoring", 0)
            self._add_longest(scoring, [column.scoring_apart_seconds for column in self._columns])
            generating = self._sum(
                [each.busy_seconds if each.fetches_weights else 0.0 for each in self._columns]
            )
            self._program += step >= generating + (lag + scoring) / steps_ahead
            if any(column.keeps_step for column in self._columns):
                self._program += step >= self._in_step()
            return step + 0
        lengths = []
        for number in PHASES:
            length = self._program.add_variable(f"phase_{number}", 0)
            self._add_longest(length, [each.phase_seconds[number] for each in self._columns])
            lengths.append(length)
        return pulp.lpSum(lengths) + lag

    def _in_step(self) -> pulp.LpAffineExpression:
        """Return how long a batch keeps two training groups busy, with its lower bounds as rows."""
        phases = []
        for number in (SCORING, TRAINING):
            length = self._program.add_variable(f"in_step_{number}", 0)
            seconds = [each.phase_seconds[number] * each.keeps_step for each in self._columns]
            self._add_longest(length, seconds)
            phases.append(length)
        return pulp.lpSum(phases)

    def _add_lag(self, lag_seconds: Callable[[Sequence[str], str], float]) -> pulp.LpVariable:
        """Return the longest way of weights from the trainer to a group that generates."""
        lag = self._program.add_variable("lag", 0)
        receiving = [column for column in self._columns if column.fetches_weights]
        for region in sorted({region for column in receiving for region in column.regions}):
            lags = [
                lag_seconds(column.regions, region) if column.trains_actor else 0.0
                for column in self._columns
            ]
            fetching = [
                float(column.fetches_weights and region in column.regions)
                for column in self._columns
            ]
            late = self._sum(lags) + max(lags) * (self._sum(fetching) - 1)
            self._program += lag >= late
        return lag

    def _add_longest(self, length: pulp.LpVariable, seconds: Sequence[float]) -> None:
        """Hold a length above the seconds of every column that is taken."""
        for row in self._rows(seconds):
            self._program += length >= pulp.LpAffineExpression(
                (self._taken[number], weight) for number, weight in row
            )

    def _rows(self, seconds: Sequence[float]) -> Iterator[list[tuple[int, float]]]:
        """Yield sums of columns of which at most one is taken, or else an average of those taken.

        One row for each column would be enough, but gives a weak relaxation.
        """
        working = [number for number, each in enumerate(seconds) if each]
        alone: set[int] = set()
        for number, supply in enumerate(self._supplies):
            most = [
                column
                for column in working
                if 2 * self._columns[column].bundle[number] > supply.most_units
            ]
            alone.update(most)
            yield [(column, seconds[column]) for column in most]
            yield [
                (column, seconds[column] * units / supply.most_units)
                for column in working
                if (units := self._columns[column].bundle[number])
            ]
        for phase, count in enumerate(self._num_tasks):
            having = [
                (column, seconds[column] * self._columns[column].kind[phase] / count)
                for column in working
                if self._columns[column].kind[phase]
            ]
            yield having
        for column in working:
            if not self._does_all_of_a_phase(column):
                yield [(column, seconds[column])]

    def _does_all_of_a_phase(self, column: int) -> bool:
        kind = self._columns[column].kind
        return any(
            count and count == most for count, most in zip(kind, self._num_tasks, strict=True)
        )
