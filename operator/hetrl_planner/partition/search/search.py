"""Ask-and-tell interface: proposals of searches, their costs, and the limits.

A search is a generator: it yields a partition (ask), and is sent its cost (tell). It
compares costs and knows no limits. ``minimise`` holds the limits and keeps the best.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Literal, TypeVar

from hetrl_planner.partition.cost import PartitionCost
from hetrl_planner.partition.graph import Labels
from hetrl_planner.partition.shape import Partition

Result = TypeVar("Result")
Proposals = Generator[Labels, float, Result]
"""Yields fresh label arrays, is sent their cost, and may return a result."""

EndedBy = Literal["work", "evaluations", "should_stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The cheapest partition that a search met."""

    partition: Partition
    cost: float
    evaluations: int
    ended_by: EndedBy
    """``work``: the search had no more to propose. Only ``should_stop`` is not repeatable."""


def never() -> bool:
    """Never stop a search."""
    return False


def minimise(
    proposals: Proposals[object],
    cost: PartitionCost,
    *,
    max_evaluations: int,
    should_stop: Callable[[], bool] = never,
) -> Best:
    """Evaluate a search's proposals until it, the evaluations or ``should_stop`` end it.

    The first proposal is always evaluated, so that there is a best one.

    Raises:
        ValueError: ``max_evaluations`` is less than 1, or the search proposes nothing.
    """
    if max_evaluations < 1:
        raise ValueError(f"max_evaluations must be >= 1, got {max_evaluations}")
    labels = next(proposals, None)
    if labels is None:
        raise ValueError("the search proposes no partition")
    best, best_cost = labels, cost(labels)
    current_cost, evaluations = best_cost, 1
    while (ended_by := _limit(evaluations, max_evaluations, should_stop)) is None:
        try:
            labels = proposals.send(current_cost)
        except StopIteration:
            ended_by = "work"
            break
        current_cost = cost(labels)
        evaluations += 1
        if current_cost < best_cost:
            best, best_cost = labels, current_cost
    proposals.close()
    return Best(
        partition=Partition.of(best), cost=best_cost, evaluations=evaluations, ended_by=ended_by
    )


def _limit(
    evaluations: int, max_evaluations: int, should_stop: Callable[[], bool]
) -> EndedBy | None:
    if evaluations >= max_evaluations:
        return "evaluations"
    return "should_stop" if should_stop() else None
