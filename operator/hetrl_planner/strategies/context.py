"""The context of a search: what to plan, how good a layout is, and when to stop."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from hetrl_core.job.spec import JobSpec
from hetrl_planner.hetrl.genome.groupings import Grouping, disjoint, groupings
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.objective import Objective
from hetrl_planner.phase1.alternatives import Alternative, alternatives
from hetrl_planner.phase1.iterate import Searcher
from hetrl_planner.phase1.space import Space
from hetrl_planner.problem.fleet_size import MostGpus
from hetrl_planner.problem.goals import Goal


@dataclass(frozen=True, kw_only=True)
class SearchContext:
    """The search for one job on one fleet, or for a part of it."""

    space: Space
    goal: Goal
    seed: int
    should_stop: Callable[[], bool]
    evaluations: int | None = None
    """Layouts that HetRL's search may price; ``None``: by the size of the fleet."""

    job: JobSpec | None = None
    """The job, if the plan's alternatives and finalists are compared too. A part of a search, such
    as that of a tile, has none: it takes the best prediction."""

    @cached_property
    def evaluator(self) -> Evaluator:
        """The cost model on the space's devices."""
        devices = Devices(snapshot=self.space.snapshot, sites=self.space.sites)
        return Evaluator(self.space.work, devices)

    @cached_property
    def objective(self) -> Objective:
        """The goal and limits by which layouts are compared."""
        return Objective(goal=self.goal, limits=self.space.limits, devices=self.evaluator.devices)

    @property
    def searcher(self) -> Searcher:
        """Phase 1's search with this stop condition."""
        return Searcher(should_stop=self.should_stop, seed=self.seed)

    @cached_property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The best choices with fewer kinds of GPUs: later searches start from them as well."""
        return alternatives(self.space, self.goal, self.searcher) if self.job else ()

    @cached_property
    def groupings(self) -> list[Grouping]:
        """Task groups that may share GPUs."""
        work = self.space.work
        return list(
            groupings(
                work.tasks,
                runnable_only=self.space.runnable_only,
                generation_apart=work.generation_apart,
            )
        )

    @property
    def disjoint(self) -> Grouping:
        """All tasks that may be apart, apart."""
        return disjoint(self.space.work.tasks)

    @property
    def is_small(self) -> bool:
        """Whether evolution needs no other search's result on this fleet."""
        return self.evaluator.devices.num_gpus <= MostGpus.SMALL

    @property
    def is_large(self) -> bool:
        """Whether the fleet is planned by tiles, with little evolution after them."""
        return self.evaluator.devices.num_gpus > MostGpus.WHOLE
