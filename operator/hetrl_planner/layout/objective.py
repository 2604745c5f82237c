"""The order of evaluated layouts: the goal, within the limits.

Searches compare scores; the MILP has the same goals and limits as rows of its own.
"""

from dataclasses import dataclass

from hetrl_core.task import Task
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluation import Evaluation, Misfit
from hetrl_planner.layout.layout import Layout
from hetrl_planner.problem.goals import DOLLARS_PER_GPU, Fastest, FewestGpus, Goal, Limits

Score = tuple[float, float, float]
"""Excess over the limits (0: none), the goal's value, and tie-breakers."""

MISFIT = 10.0
"""Worse than any broken limit: a layout that does not fit is no plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A goal and limits for layouts on some devices."""

    goal: Goal
    limits: Limits
    devices: Devices

    def score(self, found: Evaluation | Misfit | None) -> Score:
        """Return a score, smaller is better; ``None`` is a genome that is no layout."""
        if found is None:
            return (2 * MISFIT, 0.0, 0.0)
        if isinstance(found, Misfit):
            return (MISFIT * found.excess, 0.0, 0.0)
        return (self.excess(found), self.value(found), found.dollars_per_hour)

    def value(self, found: Evaluation) -> float:
        """Return the value that the goal minimises: seconds, dollars an hour, or GPUs."""
        if isinstance(self.goal, Fastest):
            return found.step_seconds
        if isinstance(self.goal, FewestGpus):
            return float(found.num_gpus)
        return found.dollars_per_hour + DOLLARS_PER_GPU * found.num_gpus

    def excess(self, found: Evaluation) -> float:
        """Return the sum of the shares by which limits are exceeded; 0 if none is."""
        limits, layout = self.limits, found.layout
        replicas = len(layout.task(Task.ACTOR_GENERATION).replicas)
        total = (
            _over(found.dollars_per_hour, limits.budget_dollars_per_hour)
            + _over(found.num_gpus, limits.max_gpus)
            + _over(replicas, limits.max_replicas)
            + max(0.0, 1 - replicas / limits.min_replicas)
            + self._pools_excess(layout)
        )
        if not isinstance(self.goal, Fastest):
            total += _over(found.step_seconds, self.goal.step_seconds)
        return total

    def _pools_excess(self, layout: Layout) -> float:
        limits = {
            site.pool: site.max_gpus for site in self.devices.sites if site.max_gpus is not None
        }
        if not limits:
            return 0.0
        taken = dict.fromkeys(limits, 0)
        for gpu in layout.gpus:
            pool = self.devices.site(self.devices.gpu_machines[gpu]).pool
            if pool in taken:
                taken[pool] += 1
        return sum(_over(taken[pool], limit) for pool, limit in limits.items())


def _over(value: float, limit: float | None) -> float:
    # Sums of prices carry rounding errors; the limits that users write do not.
    if limit is None or value <= limit * (1 + 1e-9):
        return 0.0
    return value / limit - 1 if limit > 0 else value
