"""A cache of the planner's results, shared by equal requests.

A thousand jobs of one sweep make few distinct requests (``hetrl_planner.problem.cache_key``). The
cache is in memory only: after a restart the planner plans again. ``reservations`` checks whether a
result's GPUs are still free.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_operator.model.planning import Answer, InsufficientFreeGpus
from hetrl_planner.problem.cache_key import PlanningProblem

MOST_KEPT = 256
"""Entries of the cache; the least recently used one is evicted first."""


@dataclass(frozen=True, slots=True)
class _Entry:
    answer: Answer
    request: PlanningProblem
    at: float
    lasts: bool


@dataclass(slots=True)
class PlanCache:
    """The planner's results by cache key."""

    _entries: dict[Hashable, _Entry] = field(default_factory=dict)

    def plan(self, request: PlanningProblem, *, since: float) -> Plan | None:
        """Return the cached plan of an equal request, renamed to this request's machines.

        A plan that the time budget cut short might be better the next time. It only serves
        requests that were waiting while it was made.

        Args:
            request: the request.
            since: when this request was first made.
        """
        entry = self._get(request.key, since)
        if entry is None or not isinstance(entry.answer, Plan):
            return None
        return request.plan_from(entry.answer, entry.request)

    def fits(self, request: PlanningProblem) -> bool:
        """Tell whether a plan was ever found for a request."""
        entry = self._entries.get(request.key)
        return entry is not None and isinstance(entry.answer, Plan)

    def refusal(self, exact: Hashable, *, since: float) -> Answer | None:
        """Return the cached refusal for exactly this fleet, if one was found since a time.

        A refusal's message names what is free on the whole fleet, so a similar fleet has another.
        """
        entry = self._get(exact, since)
        return entry.answer if entry else None

    def store(
        self, request: PlanningProblem, exact: Hashable, answer: Answer, *, at: float
    ) -> None:
        """Store an answer for later requests."""
        if isinstance(answer, Plan):
            lasts = answer.ended_by == "work"
            self._put(request.key, _Entry(answer, request, at, lasts))
        elif isinstance(answer, Infeasible | InsufficientFreeGpus):
            self._put(exact, _Entry(answer, request, at, lasts=False))
        # Alternatives are for one running job; an error says nothing about the request.

    def _get(self, key: Hashable, since: float) -> _Entry | None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._entries[key] = entry
        return entry if entry.lasts or entry.at >= since else None

    def _put(self, key: Hashable, entry: _Entry) -> None:
        self._entries.pop(key, None)
        if len(self._entries) >= MOST_KEPT:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = entry
