"""The ILP from end to end: columns priced, chosen, and the choices priced whole.

The program does not see transfers between groups, so its best choices are priced whole one after
the other, until the next is bound to be worse than the best so far. Groups within one region are
priced and chosen from first, then those that span two, and so on: so there is a plan early, and
groups that cannot be part of a better one are not priced. On all but small fleets the search ends
at the first additional region that does not help.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from math import inf

from hetrl_planner.hetrl.genome.decode import Decoder
from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.ilp.bundles import Bundle
from hetrl_planner.ilp.columns import PHASES, Column, ColumnPricer, unbeaten
from hetrl_planner.ilp.program import Program
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.objective import Objective, Score
from hetrl_planner.problem.fleet_size import MostGpus
from hetrl_planner.problem.goals import Fastest
from hetrl_planner.problem.workload import ON_TIME

PACE_TOLERANCE = 1e-9

MOST_CHOICES = 3
"""Choices of each program that are priced whole. Ours."""

MOST_CHOICES_OF_FEW = 20
"""Choices on small fleets, whose programs are solved in a moment."""

MOST_ORDERED_SITES = 4
"""The most sites whose orders are all tried. Ours."""

OTHER_PHASES = 0.9
"""Share of the phases' time if all tasks share one region's GPUs: about the least possible, so that
a start leaves out groups whose own phases are too long beside it. Ours.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IlpResult:
    """The result of the ILP, the best first."""

    evaluation: Evaluation
    score: Score
    genomes: tuple[Genome, ...]
    """The genomes of all choices that fit, as starts of evolution."""

    finalists: tuple[Evaluation, ...]
    """Those of them that keep the limits, best first."""

    is_complete: bool
    """Whether the search ended by itself, not by ``should_stop``."""


def find(
    evaluator: Evaluator,
    objective: Objective,
    *,
    should_stop: Callable[[], bool],
    seed: int,
    most_regions: int | None = None,
    most_choices: int | None = None,
    runnable_only: bool = False,
) -> IlpResult | None:
    """Return the best choice of columns within the limits, ``None`` if there is none.

    No group spans more than ``most_regions``; ``most_choices`` of each program are priced whole.
    With these the search only needs a start, and leaves out groups that hardly lead to one.
    """
    decoder = Decoder(evaluator, runnable_only=runnable_only)
    is_large = evaluator.devices.num_gpus > MostGpus.SMALL
    pricing = ColumnPricer(evaluator=evaluator, decoder=decoder)
    takes_turns = evaluator.work.is_synchronous and len(pricing.bundles) == 1
    search = _Search(
        evaluator=evaluator,
        objective=objective,
        decoder=decoder,
        pricing=pricing,
        should_stop=should_stop,
        most_choices=most_choices or (MOST_CHOICES if is_large else MOST_CHOICES_OF_FEW),
        other_phases=OTHER_PHASES if most_regions and takes_turns and is_large else 0.0,
    )
    columns: list[Column] = []
    is_complete = True
    for bundles in search.pricing.bundles[:most_regions]:
        columns = search.useful([*columns, *search.columns(bundles)])
        best = search.best_value
        is_complete = search.choose(columns, seed=seed)
        if not is_complete or (is_large and best < inf and search.best_value == best):
            break
    is_complete = search.reorder() and is_complete
    return search.partitioned(is_complete=is_complete)


Found = tuple[Score, int, Genome, Evaluation]
"""A choice as it was priced, with its number among them."""


@dataclass(slots=True, kw_only=True)
class _Search:
    """One search and its results so far."""

    evaluator: Evaluator
    objective: Objective
    decoder: Decoder
    pricing: ColumnPricer
    should_stop: Callable[[], bool]
    most_choices: int
    other_phases: float
    shared_seconds: tuple[float, ...] = (0.0,) * len(PHASES)
    """Of each phase, where all tasks share the same GPUs: the least that was seen."""

    found: list[Found] = field(default_factory=list)
    tried: list[Sequence[Column]] = field(default_factory=list)

    def columns(self, bundles: Sequence[Bundle]) -> Iterator[Column]:
        """Yield the columns that may be part of a better plan; whole plans are tried at once."""
        for column in self.pricing.columns(
            bundles, is_useful=self._is_useful, should_stop=self.should_stop
        ):
            yield column
            if column.kind == self.pricing.kinds.everything:
                self._share(column)

    def useful(self, columns: Sequence[Column]) -> list[Column]:
        """Return the columns that may still be part of a better plan."""
        return unbeaten([column for column in columns if self._is_useful(column)])

    def choose(self, columns: Sequence[Column], *, seed: int) -> bool:
        """Try the program's choices, best first; tell whether none is left."""
        work = self.evaluator.work
        program = Program(
            columns,
            self.pricing.supplies,
            self.pricing.kinds.everything,
            goal=self.objective.goal,
            limits=self.objective.limits,
            lag_seconds=self.pricing.lag_seconds,
            steps_ahead=0.0 if work.is_synchronous else ON_TIME * work.max_staleness,
        )
        for columns_tried in self.tried:
            program.forbid(columns_tried)
        for _ in range(self.most_choices):
            program.leave_out(from_seconds=self._most_seconds)
            chosen = program.choose(should_stop=self.should_stop, seed=seed)
            if chosen is None:
                return not self.should_stop()
            if chosen.bound >= self.best_value:
                return chosen.is_complete
            self._try(chosen.columns)
            program.forbid(chosen.columns)
        return True

    def reorder(self) -> bool:
        """Try the best choices with their pipelines through few sites in every order.

        Tell whether all were tried.

        Early stages hold the activations of more passes and late ones the head, so the order of
        GPU kinds matters even on fast links.
        """
        site_of = self.evaluator.devices.machine_sites
        ways = permutations(sorted(set(site_of))) if len(set(site_of)) <= MOST_ORDERED_SITES else ()
        for (*_, genome, _), sites in product(self._best, tuple(ways)):
            if self.should_stop():
                return False
            order = tuple(sorted(genome.order, key=lambda machine: sites.index(site_of[machine])))
            if order != genome.order:
                self._price(replace(genome, order=order))
        return True

    def partitioned(self, *, is_complete: bool) -> IlpResult | None:
        """Return the result."""
        if not self.found or self.found[0][0][0] > 0:
            return None
        score, _, _, evaluation = self.found[0]
        best = self._best
        return IlpResult(
            evaluation=evaluation,
            score=score,
            genomes=tuple(genome for _, _, genome, _ in best),
            finalists=tuple(each for (excess, *_), _, _, each in best if not excess),
            is_complete=is_complete,
        )

    @property
    def _best(self) -> list[Found]:
        """The best choices, each in its best order."""
        unlike: dict[object, Found] = {}
        for each in self.found:
            _, _, genome, _ = each
            unlike.setdefault((genome.grouping, genome.counts), each)
        return list(unlike.values())[:MOST_CHOICES]

    def _is_useful(self, column: Column) -> bool:
        """Whether a step may be short enough, phases of a synchronous one being in a row."""
        phases = zip(column.phase_seconds, self.shared_seconds, strict=True)
        least = sum(max(own, self.other_phases * shared) for own, shared in phases)
        return least < self._most_seconds

    def _share(self, column: Column) -> None:
        phases = zip(column.phase_seconds, self.shared_seconds, strict=True)
        self.shared_seconds = tuple(min(own, shared or own) for own, shared in phases)
        self._try([column])

    def _try(self, columns: Sequence[Column]) -> None:
        self.tried.append(columns)
        self._price(self.pricing.genome([(column.kind, column.bundle) for column in columns]))

    def _price(self, genome: Genome | None) -> None:
        layout = self.decoder.decode(genome) if genome else None
        priced = layout and self.evaluator.evaluate(layout)
        if genome and isinstance(priced, Evaluation):
            self.found.append((self.objective.score(priced), len(self.found), genome, priced))
            self.found.sort(key=lambda each: each[:2])

    @property
    def best_value(self) -> float:
        """The goal's value of the best plan; infinite if none keeps the limits."""
        if not self.found or self.found[0][0][0] > 0:
            return inf
        return self.found[0][0][1]

    @property
    def _most_seconds(self) -> float:
        """Return the step that no group of a better plan may reach."""
        if isinstance(self.objective.goal, Fastest):
            return self.best_value
        return self.objective.goal.step_seconds * (1 + PACE_TOLERANCE)
