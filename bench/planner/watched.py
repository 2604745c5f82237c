"""Searches that are seen at work: every layout that they price is told of as it is priced."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation, Misfit
from hetrl_planner.layout.layout import Layout
from hetrl_planner.problem.workload import Workload
from hetrl_planner.strategies.auto import Portfolio

Tell = Callable[[Evaluation | Misfit], None]


class Telling(Evaluator):
    """An evaluator that tells what it found."""

    def __init__(self, work: Workload, devices: Devices, tell: Tell) -> None:
        super().__init__(work, devices)
        self._tell = tell

    def evaluate(self, layout: Layout) -> Evaluation | Misfit:
        """Return what a layout costs, once it is told."""
        found = super().evaluate(layout)
        self._tell(found)
        return found


@dataclass(frozen=True, kw_only=True)
class Watched(Portfolio):
    """A portfolio whose evaluations are seen."""

    tell: Tell

    @cached_property
    def evaluator(self) -> Evaluator:
        """What prices layouts, and tells of it."""
        devices = Devices(snapshot=self.space.snapshot, sites=self.space.sites)
        return Telling(self.space.work, devices, self.tell)
