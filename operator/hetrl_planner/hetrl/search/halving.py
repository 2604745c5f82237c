"""Levels 1 and 2: nested successive halving over groupings, and over counts within each.

Every arm starts with a small budget; each round drops the worse half of the groupings, keeps
the better half of the counts of those that stay, and doubles their budget (HetRL, arXiv
2512.12476; successive halving after Jamieson and Talwalkar, 2016). The paper publishes no
constants: those below are ours.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from hetrl_core.task import SCORING_TASKS
from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.hetrl.genome.groupings import Grouping
from hetrl_planner.hetrl.search.descent import descend
from hetrl_planner.hetrl.search.evolution import Asked, Guide, Population, evolve
from hetrl_planner.hetrl.search.neighbours import Neighbours
from hetrl_planner.hetrl.search.starts import SPREAD, Starts
from hetrl_planner.hetrl.search.variation import Variation
from hetrl_planner.problem.fleet_size import MostGpus

START_SHARE = 0.1
"""Share of the budget for first genomes: level-2 arms, divided among the groupings."""

COUNTS_PER_GROUPING = 4
"""Level-2 arms of each grouping that continue after them."""

LEADER_SHARE = 0.5
"""Share of each round for the leading population, so that an early stop finds it well advanced.
Ours."""

FINAL_SHARE = 0.75
"""Share of the budget for the final."""

PACKED_START_SHARE, PACKED_FINAL_SHARE = 0.2, 0.6
"""The share on fleets with packed groups: genomes leave nothing open there, so the first few tell
more about a grouping."""

FINALISTS = 3
"""The best groupings keep all their counts in the final; the others keep one."""

FINAL_POPULATION = 40
"""Individuals of the final. Ours: with a dozen, it ends in the first valley."""

MOST_ALIKE = 10
"""Individuals of one grouping in the final, where there are many groupings. Ours."""

DESCENT_SHARE = 0.4
"""Share of the budget for single changes of the best."""

DESCENTS = 16
"""Groupings from whose best genomes descents start, as long as the budget lasts."""


@dataclass(slots=True)
class Arm:
    """One grouping with several divisions of the GPUs."""

    grouping: Grouping
    populations: list[Population]

    @property
    def best(self) -> Population:
        """The population with the best individual."""
        return min(self.populations, key=lambda each: each.best)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessiveHalving:
    """The search of levels 1 and 2."""

    groupings: Sequence[Grouping]
    starts: Starts
    variation: Variation
    rng: np.random.Generator
    seeds: tuple[Genome, ...] = ()
    """Genomes known to be good, from another search."""

    def search(self, *, evaluations: int) -> Asked:
        """Propose genomes until the budget is spent; none if no grouping has enough GPUs."""
        kept = 0
        if self.variation.num_gpus <= MostGpus.LISTED:
            kept = int(evaluations * DESCENT_SHARE)
            evaluations -= kept
        arms = [Arm(grouping=grouping, populations=[]) for grouping in self._possible]
        if not arms:
            return
        begun = list(arms)
        spent = yield from self._begin(arms, evaluations=int(self._start_share * evaluations))
        for arm in arms:
            arm.populations.sort(key=lambda each: each.best)
            del arm.populations[COUNTS_PER_GROUPING:]
        rounds = max(1, ceil(log2(len(arms))))
        per_round = max(0, int(evaluations * (1 - self._final_share)) - spent) // rounds
        while len(arms) > FINALISTS:
            arms = _better_half(arms)
            spent += yield from self._round(arms, evaluations=per_round)
        arms.sort(key=lambda arm: arm.best.best)
        left = max(0, evaluations - spent)
        yield from self._final(arms, begun, evaluations=left)
        yield from self._descents(begun, evaluations=kept)

    @property
    def _start_share(self) -> float:
        return PACKED_START_SHARE if self.variation.packs else START_SHARE

    @property
    def _final_share(self) -> float:
        return PACKED_FINAL_SHARE if self.variation.packs else FINAL_SHARE

    @property
    def _possible(self) -> list[Grouping]:
        """Groupings with a GPU for each group, without permutations of equal tasks."""
        num_gpus = self.variation.num_gpus
        seeded = {seed.grouping for seed in self.seeds}
        found: dict[object, Grouping] = {}
        is_alike = self.variation.decoder.fitting.runnable_only
        for grouping in sorted(self.groupings, key=lambda each: each not in seeded):
            if len(grouping) <= num_gpus or grouping in seeded:
                # In runnable plans a reward model stays in memory, so it differs from others.
                found.setdefault(grouping if is_alike else _likeness(grouping), grouping)
        return list(found.values())

    def _descents(self, arms: Sequence[Arm], *, evaluations: int) -> Asked:
        """Descend from the best of each arm, as long as the budget lasts."""
        starts = sorted((arm.best.members[0] for arm in arms), key=lambda member: member[0])
        seen: set[Genome] = set()
        neighbours = Neighbours(self.variation.decoder, self.groupings)
        left = evaluations
        for start in starts[:DESCENTS]:
            left -= yield from descend(start, neighbours, self.rng, evaluations=left, seen=seen)

    def _begin(self, arms: Sequence[Arm], *, evaluations: int) -> Generator[Genome, Guide, int]:
        """Propose first genomes in turns, and between turns children of the leader.

        A search that is stopped early has then tried all arms and improved the best.
        """
        spent = turns = 0
        while not turns or spent + len(arms) <= evaluations:
            for arm in arms:
                for seed in self.seeds if not turns else ():
                    if seed.grouping == arm.grouping:
                        yield from self._found(arm, seed)
                spread = SPREAD if turns else 0.0
                yield from self._found(arm, self.starts.genome(arm.grouping, spread=spread))
            to_leader = int(LEADER_SHARE * len(arms))
            yield from self._evolve_leader(arms, evaluations=to_leader)
            spent += len(arms) + to_leader
            turns += 1
        return spent

    def _evolve_leader(self, arms: Sequence[Arm], *, evaluations: int) -> Asked:
        leader = min(arms, key=lambda arm: arm.best.best).best
        yield from evolve(leader, self.variation, self.rng, evaluations=evaluations)

    def _found(self, arm: Arm, genome: Genome) -> Asked:
        """Start a population with one genome."""
        score = yield genome
        population = Population(seen={genome})
        population.add(score, genome)
        arm.populations.append(population)

    def _round(self, arms: Sequence[Arm], *, evaluations: int) -> Generator[Genome, Guide, int]:
        """Evolve the better counts of each arm, the leader's more; return the evaluations spent."""
        to_leader = int(LEADER_SHARE * evaluations)
        spent = to_leader
        for arm in arms:
            arm.populations.sort(key=lambda each: each.best)
            del arm.populations[ceil(len(arm.populations) / 2) :]
            each = (evaluations - to_leader) // len(arms) // len(arm.populations)
            for population in arm.populations:
                yield from evolve(population, self.variation, self.rng, evaluations=each)
                spent += each
        yield from self._evolve_leader(arms, evaluations=to_leader)
        return spent

    def _final(self, arms: Sequence[Arm], begun: Sequence[Arm], *, evaluations: int) -> Asked:
        """Evolve the finalists, and the best of every other arm, as one population."""
        most_alike = max(MOST_ALIKE, FINAL_POPULATION // len(begun))
        final = Population(most=FINAL_POPULATION, most_alike=most_alike)
        others = [arm.best.members[:1] for arm in begun if arm not in arms]
        finalists = [each.members for arm in arms for each in arm.populations]
        for score, genome in (member for members in (*finalists, *others) for member in members):
            if genome not in final.seen:
                final.seen.add(genome)
                final.add(score, genome)
        yield from evolve(final, self.variation, self.rng, evaluations=evaluations)


def _better_half(arms: Sequence[Arm]) -> list[Arm]:
    ranked = sorted(arms, key=lambda arm: arm.best.best)
    return ranked[: ceil(len(ranked) / 2)]


def _likeness(grouping: Grouping) -> object:
    """Return the key of groupings that differ only by which model scores where.

    All models have the actor's dimensions, so they cost the same.
    """
    return tuple(
        sorted(
            tuple(sorted("scoring" if task in SCORING_TASKS else task for task in group))
            for group in grouping
        )
    )
