"""Answers of the planner, for all who ask the same.

A thousand jobs of one sweep are few questions (``hetrl_planner.problem.cache_key``). Kept in
memory only: after a restart the planner is asked anew. Whether an answer's GPUs are still free is
left to ``reservations``.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import assert_never

from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_operator.model.observed import Alternatives, Answer, Occupied, PlannerTrouble
from hetrl_planner.problem.cache_key import PlanningProblem

MOST_KEPT = 256
"""The least recently used goes first."""


@dataclass(frozen=True, slots=True)
class _Kept:
    answer: Answer
    asked: PlanningProblem
    at: float
    lasts: bool


@dataclass(slots=True)
class Answers:
    """What the planner said, by what it was asked."""

    _kept: dict[Hashable, _Kept] = field(default_factory=dict)

    def plan(self, asked: PlanningProblem, *, since: float) -> Plan | None:
        """Return a plan for a question that was asked before, on the machines of this one.

        A plan that time cut short might be better the next time: it is for those who were waiting
        while it was made.

        Args:
            asked: the question.
            since: when this one was asked first.
        """
        kept = self._find(asked.key, since)
        if kept is None or not isinstance(kept.answer, Plan):
            return None
        return asked.plan_from(kept.answer, kept.asked)

    def fits(self, asked: PlanningProblem) -> bool:
        """Tell whether a plan was found for a question at any time."""
        kept = self._kept.get(asked.key)
        return kept is not None and isinstance(kept.answer, Plan)

    def refusal(self, exact: Hashable, *, since: float) -> Answer | None:
        """Return why nothing was found, to those who asked for the same fleet at that time.

        Its words name what is free on the whole fleet, so that alike is not enough.
        """
        kept = self._find(exact, since)
        return kept.answer if kept else None

    def learn(self, asked: PlanningProblem, exact: Hashable, answer: Answer, *, at: float) -> None:
        """Keep an answer for those who ask later."""
        match answer:
            case Plan():
                lasts = answer.ended_by == "work"
                self._keep(asked.key, _Kept(answer, asked, at, lasts))
            case Infeasible() | Occupied():
                self._keep(exact, _Kept(answer, asked, at, lasts=False))
            case Alternatives() | PlannerTrouble():
                # One is for a job that runs already, the other says nothing of the question.
                pass
            case _:
                assert_never(answer)

    def _find(self, key: Hashable, since: float) -> _Kept | None:
        kept = self._kept.pop(key, None)
        if kept is None:
            return None
        self._kept[key] = kept
        return kept if kept.lasts or kept.at >= since else None

    def _keep(self, key: Hashable, kept: _Kept) -> None:
        self._kept.pop(key, None)
        if len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = kept
