"""The state of planning for a job, as a value, and its condition Planned."""

from dataclasses import dataclass

from hetrl_api.job.status import LastReplan
from hetrl_core.plan.plan import Infeasible
from hetrl_operator.decide.plan.next_step import Retry
from hetrl_operator.model.actions import Action, Event
from hetrl_operator.model.conditions import Finding
from hetrl_operator.model.planning import InsufficientFreeGpus, PlanSeen
from hetrl_operator.model.reasons import ConditionType, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The state of planning for a job."""

    plan: PlanSeen | None
    """The plan to follow now; None while there is none, or its GPUs are not reserved yet."""

    finding: Finding
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    drift_message: str = ""
    """Why another plan should replace it, and why none has yet; empty if none should."""

    replan: LastReplan | None = None
    """The result of a search for another plan, if it is new."""

    wake_after_seconds: float | None = None
    """Delay after which to reconcile again without an event; None: only after an event."""


def ready(known: PlanSeen) -> Finding:
    """Return condition Planned of a job that has a plan."""
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
    """Return condition Planned of a job that has no plan, with the reason."""
    return Finding(type=ConditionType.PLANNED, holds=False, reason=reason, message=message)


def refusal(answer: Infeasible | InsufficientFreeGpus) -> Finding:
    """Return condition Planned of a job for which no plan was found."""
    reasons = "; ".join(answer.reasons)
    if isinstance(answer, Infeasible):
        return not_yet(Reason.INFEASIBLE, reasons)
    counts = answer.held_gpus or not answer.full
    others = (f"other jobs hold {answer.held_gpus} GPUs",) if counts else ()
    text = f"{'; '.join((*others, *answer.full))}, and without these: {reasons}"
    return not_yet(Reason.INSUFFICIENT_FREE_GPUS, text)


def retry_later(step: Retry, actions: tuple[Action, ...] = ()) -> Planned:
    """Return the state of a job without a plan whose planner failed."""
    return Planned(
        plan=None,
        finding=not_yet(step.error.reason, step.message),
        actions=actions,
        wake_after_seconds=step.backoff.left_seconds,
    )
