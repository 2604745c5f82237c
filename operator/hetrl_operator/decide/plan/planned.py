"""Where planning stands for a job, as a value, and how condition Planned puts it."""

from dataclasses import dataclass
from typing import assert_never

from hetrl_api.job.status import LastReplan
from hetrl_core.plan.plan import Infeasible
from hetrl_operator.model.actions import Action, Event
from hetrl_operator.model.conditions import Finding
from hetrl_operator.model.observed import InsufficientFreeGpus, PlanSeen
from hetrl_operator.model.reasons import ConditionType, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Where planning stands for a job."""

    plan: PlanSeen | None
    """The plan to follow now; None while there is none, or its GPUs are not ours yet."""

    finding: Finding
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    drift: str = ""
    """Why the plan should give way, and why it has not yet; empty where it should not."""

    replan: LastReplan | None = None
    """What came of the search for another plan, where that is news."""

    wake_after_seconds: float | None = None
    """When to look again though nothing has happened; None: only when something has."""


def ready(known: PlanSeen) -> Finding:
    """Say of a job that it has a plan."""
    plan = known.plan
    message = (
        f"{known.name}: {plan.num_gpus} GPUs, {plan.prediction.step_seconds:.3g} s a step and "
        f"${plan.prediction.dollars_per_hour:.2f}/h predicted; bound by "
        f"{plan.prediction.bottleneck}"
    )
    if known.left_out:
        # The plan may outlast the reason: a node that is back need not be worth a change.
        message += f"; when it was made: {known.left_out}"
    return Finding(
        type=ConditionType.PLANNED, holds=True, reason=Reason.PLAN_READY, message=message
    )


def not_yet(reason: str, message: str) -> Finding:
    """Say why a job has no plan."""
    return Finding(type=ConditionType.PLANNED, holds=False, reason=reason, message=message)


def refusal(answer: Infeasible | InsufficientFreeGpus) -> Finding:
    """Say of a job that it has no plan because there is none."""
    match answer:
        case Infeasible(reasons=reasons):
            return not_yet(Reason.INFEASIBLE, "; ".join(reasons))
        case InsufficientFreeGpus(reasons=reasons, held_gpus=held, full=full):
            others = (f"other jobs hold {held} GPUs",) if held or not full else ()
            text = f"{'; '.join((*others, *full))}, and without these: {'; '.join(reasons)}"
            return not_yet(Reason.INSUFFICIENT_FREE_GPUS, text)
        case _:
            assert_never(answer)
