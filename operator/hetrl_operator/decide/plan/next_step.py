"""The state machine of a search: the planner's state for a request, mapped to the next step.

``auto`` and ``manual`` follow the steps of a job without pods, ``replan`` those of a running job.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_operator.decide.plan.backoff import Backoff, backoff
from hetrl_operator.model.observed import Observed
from hetrl_operator.model.planning import Alternatives, InsufficientFreeGpus, PlannerError

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Start:
    """No answer applies to the request: start a search."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A search for the request runs."""


@dataclass(frozen=True, slots=True)
class Follow:
    """The search found a plan."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Choose:
    """The search found alternatives to the active plan."""

    found: Alternatives


@dataclass(frozen=True, slots=True)
class Refuse:
    """No plan fits, or not beside other jobs; this holds until the inputs change."""

    answer: Infeasible | InsufficientFreeGpus


@dataclass(frozen=True, slots=True)
class Retry:
    """The planner failed, and is tried again after a backoff."""

    error: PlannerError
    backoff: Backoff

    @property
    def message(self) -> str:
        """The failure, and when the planner is tried again."""
        return f"{self.error.message}; {self.backoff}"


NextStep = Start | Wait | Follow | Choose | Refuse | Retry


def next_step(
    seen: Observed, request_id: str, now: "datetime", *, accepts_outdated: bool = False
) -> NextStep:
    """Return the next step of the search for one request.

    Args:
        seen: the job.
        request_id: identity of the request; an answer to another one does not apply.
        now: the time.
        accepts_outdated: whether an answer for inputs that changed since still applies.
    """
    planning = seen.planning
    if planning.answer_request_id != request_id:
        return Start()
    if planning.is_running:
        return Wait()
    if planning.is_outdated and not accepts_outdated:
        return Start()
    return _of_answer(seen, now)


def _of_answer(seen: Observed, now: "datetime") -> NextStep:
    answer = seen.planning.answer
    match answer:
        case Plan() as plan:
            return Follow(plan)
        case Alternatives() as found:
            return Choose(found)
        case Infeasible() | InsufficientFreeGpus() as no_plan:
            return Refuse(no_plan)
        case PlannerError() as error:
            wait = backoff(seen, now)
            return Retry(error, wait) if wait else Start()
        case None:
            return Start()
        case _:
            assert_never(answer)
