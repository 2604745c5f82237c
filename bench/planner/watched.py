"""Observed searches: a callback receives every layout as it is priced."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation, Misfit
from hetrl_planner.layout.layout import Layout
from hetrl_planner.problem.workload import Workload
from hetrl_planner.strategies.context import SearchContext

Report = Callable[[Evaluation | Misfit], None]


class ReportingEvaluator(Evaluator):
    """An evaluator that reports each evaluation."""

    def __init__(self, work: Workload, devices: Devices, report: Report) -> None:
        super().__init__(work, devices)
        self._report = report

    def evaluate(self, layout: Layout) -> Evaluation | Misfit:
        """Report and return the cost of a layout."""
        found = super().evaluate(layout)
        self._report(found)
        return found


@dataclass(frozen=True, kw_only=True)
class Watched(SearchContext):
    """A search whose evaluations are reported."""

    report: Report

    @cached_property
    def evaluator(self) -> Evaluator:
        """The cost model, which reports each evaluation."""
        devices = Devices(snapshot=self.space.snapshot, sites=self.space.sites)
        return ReportingEvaluator(self.space.work, devices, self.report)
