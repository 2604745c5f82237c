"""Replans of a running job: it adopts another plan, or keeps its own with a reason.

The job keeps its plan until the other's GPUs are reserved. Each search ends with a record in the
status and an event, whatever its outcome. ``drift.next_search_at`` says when the next search may
start; an alternative that did not pay is evaluated again after the cooldown, without a search.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetrl_api.job.status import LastReplan
from hetrl_core.job.spec import JobSpec, MeetDeadline, MinimiseCost
from hetrl_core.plan.capabilities import obstacles
from hetrl_core.plan.plan import Plan
from hetrl_operator.decide.kueue.queueing import exceeds
from hetrl_operator.decide.plan.drift import Drift
from hetrl_operator.decide.plan.history import free_name
from hetrl_operator.decide.plan.next_step import (
    Choose,
    Follow,
    NextStep,
    Refuse,
    Retry,
    Start,
    Wait,
    next_step,
)
from hetrl_operator.decide.plan.planned import Planned, ready, refusal
from hetrl_operator.decide.plan.pod_diff import Moves, moves
from hetrl_operator.decide.plan.replan_cost import ReplanEvaluation, ReplanInputs, evaluate
from hetrl_operator.model.actions import Apply, Event, ReserveGpus, StartPlanning
from hetrl_operator.model.observed import Observed, ParsedSpec
from hetrl_operator.model.plan_selection import validation_id
from hetrl_operator.model.planning import Alternatives, PlanSeen
from hetrl_operator.model.reasons import EventReason, ReplanOutcome, ReplanReason
from hetrl_operator.render import plan_manifest

if TYPE_CHECKING:
    from datetime import datetime

MOST_CHARACTERS = 1024
"""Limit of a record's message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """The state of a search for another plan."""

    seen: Observed
    parsed: ParsedSpec
    active: PlanSeen
    kept: Planned
    cause: Drift
    now: "datetime"
    text: str = "another plan is being made"
    """What the search does, for the condition of a plan with a problem."""

    def keep_plan(self, what: str, *, after_seconds: float | None = None) -> Planned:
        """Keep the plan for now, and report drift if the plan has a problem."""
        # A plan that might only be better is no reason to call a job degraded.
        message = "" if self.cause.must_pay else f"{self.cause.why}; {what}"
        return replace(self.kept, drift_message=message, wake_after_seconds=after_seconds)

    def record(self, outcome: str, message: str) -> LastReplan:
        return LastReplan(
            time=self.now.replace(microsecond=0),
            plan=self.active.name,
            reason=self.cause.reason,
            outcome=outcome,
            fleet_hash=self.seen.fleet.key or None,
            message=message[:MOST_CHARACTERS],
        )

    def is_news(self, record: LastReplan) -> bool:
        """Tell whether the status lacks this record."""
        last = self.seen.job.status.last_replan
        return last is None or record.model_copy(update={"time": last.time}) != last


def replan(
    seen: Observed, parsed: ParsedSpec, kept: Planned, cause: Drift, now: "datetime"
) -> Planned:
    """Search for another plan while the job keeps its own."""
    assert kept.plan
    search = _Search(seen=seen, parsed=parsed, active=kept.plan, kept=kept, cause=cause, now=now)
    step = next_step(seen, cause.request_id, now, accepts_outdated=cause.must_pay)
    if cause.must_pay and _is_about_another_fleet(search, step):
        return _discard(search)
    return _advance(search, step, _request(search))


def move_to(
    seen: Observed,
    parsed: ParsedSpec,
    kept: Planned,
    manual_plan: PlanSeen,
    now: "datetime",
    *,
    validation: StartPlanning,
) -> Planned:
    """Move a running job to the plan that it names, once that was validated.

    The returned plan is the named one as soon as its GPUs are reserved.
    """
    assert kept.plan
    why = f"spec.planning.planRef names {manual_plan.name}"
    cause = Drift(
        reason=ReplanReason.SPEC_CHANGED,
        why=why,
        request_id=validation_id(manual_plan),
        keeps_trainer=False,
    )
    search = _Search(
        seen=seen,
        parsed=parsed,
        active=kept.plan,
        kept=kept,
        cause=cause,
        now=now,
        text="it is being validated",
    )
    step = next_step(seen, cause.request_id, now)
    if isinstance(step, Follow):
        return _hand_over(search, manual_plan)
    return _advance(search, step, validation)


def _advance(search: _Search, step: NextStep, request: StartPlanning) -> Planned:
    """Follow one step of the search, while the job keeps its plan."""
    match step:
        case Start():
            found = search.keep_plan(search.text)
            return replace(found, actions=(*found.actions, request))
        case Wait():
            return search.keep_plan(search.text)
        case Follow(plan):
            return _adopt(search, plan, evaluation=None)
        case Choose(found):
            return _choose_alternative(search, found)
        case Refuse(no_plan):
            return _keep(search, ReplanOutcome.NO_PLAN, refusal(no_plan).message)
        case Retry() as failed:
            kept = _keep(search, ReplanOutcome.FAILED, failed.message)
            return replace(kept, wake_after_seconds=failed.backoff.left_seconds)


def _hand_over(search: _Search, manual_plan: PlanSeen) -> Planned:
    """Reserve the GPUs of the named plan; it is the active plan from then on."""
    more = exceeds(search.seen, search.parsed, manual_plan.plan)
    if more:
        return _keep(search, ReplanOutcome.NO_QUOTA, _not_admitted(more))
    old = search.active.plan
    change = moves(old, manual_plan.plan)
    text = _change_text(old, manual_plan.plan, change)
    record = search.record(ReplanOutcome.ADOPTED, text)
    if search.seen.planning.holds_manual_plan:
        found = replace(search.kept, plan=manual_plan, finding=ready(manual_plan), drift_message="")
    else:
        found = search.keep_plan("its GPUs are being reserved")
        found = replace(found, actions=(*found.actions, ReserveGpus(plan=manual_plan.plan)))
    if not search.is_news(record):
        return found
    return replace(
        found, replan=record, events=_change_events(change, f"{search.cause.why}: {text}")
    )


def _request(search: _Search) -> StartPlanning:
    replan = search.parsed.written.planning.effective_replan
    return StartPlanning(
        request_id=search.cause.request_id,
        current=search.active.plan,
        keeps_trainer=search.cause.keeps_trainer,
        enough_percent=replan.min_improvement_percent if search.cause.must_pay else None,
    )


def _is_about_another_fleet(search: _Search, step: NextStep) -> bool:
    planning = search.seen.planning
    is_answered = planning.answer_request_id == search.cause.request_id and not isinstance(
        step, Wait
    )
    return is_answered and planning.answer_fleet != search.seen.fleet.key


def _discard(search: _Search) -> Planned:
    """Discard an answer for an earlier fleet; search again after the cooldown."""
    last, answered_at = search.seen.job.status.last_replan, search.seen.planning.answered_at
    if last and answered_at and last.time >= answered_at.replace(microsecond=0):
        return _advance(search, Start(), _request(search))
    return _keep(search, ReplanOutcome.OUTDATED, "the fleet changed again during the search")


def _keep(search: _Search, outcome: str, message: str) -> Planned:
    """Keep the plan, and record the reason if it is new."""
    found, record = search.keep_plan(message), search.record(outcome, message)
    if not search.is_news(record):
        return found
    text = f"{search.cause.why}: {message}"
    event = Event(
        reason=EventReason.REPLAN_REJECTED, message=text, is_warning=not search.cause.must_pay
    )
    return replace(found, replan=record, events=(*found.events, event))


def _choose_alternative(search: _Search, found: Alternatives) -> Planned:
    """Move to the first alternative that pays; alternatives with fewer moves come first."""
    old = search.active.plan
    ways = [(plan, moves(old, plan)) for plan in found.plans]
    ways = [(plan, each) for plan, each in ways if not each.is_none]
    if not ways:
        text = "nothing better was found than the active plan"
        return _keep(search, ReplanOutcome.UNCHANGED, text)
    inputs = _replan_inputs(search)
    evaluated = [
        (plan, evaluate(found.current, plan, moves=each, inputs=inputs)) for plan, each in ways
    ]
    for plan, evaluation in evaluated:
        if evaluation.outcome == ReplanOutcome.ADOPTED:
            return _adopt(search, plan, evaluation)
    best = max(
        (evaluation for _, evaluation in evaluated), key=lambda each: each.improvement_percent
    )
    return _keep(search, best.outcome, str(best))


def _adopt(search: _Search, plan: Plan, evaluation: ReplanEvaluation | None) -> Planned:
    """Reserve the other GPUs and write the plan; the next reconcile follows it."""
    impossible = obstacles(plan, search.parsed.spec)
    if impossible:
        return _keep(search, ReplanOutcome.NO_PLAN, "; ".join(impossible))
    more = exceeds(search.seen, search.parsed, plan)
    if more:
        return _keep(search, ReplanOutcome.NO_QUOTA, _not_admitted(more))
    planning, known = search.seen.planning, search.active
    change = moves(known.plan, plan)
    text = _change_text(known.plan, plan, change) + (f"; {evaluation}" if evaluation else "")
    record = search.record(ReplanOutcome.ADOPTED, text)
    manifest = plan_manifest(
        search.seen.job,
        plan,
        key=planning.answer_key,
        spec_key=planning.spec_key,
        left_out=planning.left_out,
        replaces=known.name,
        because=f"{record.reason}: {record.message}",
        fleet=planning.answer_fleet,
        name=free_name(search.seen, planning.answer_key),
        is_active=True,
    )
    found = search.keep_plan("another plan is being written")
    found = replace(
        found, actions=(*found.actions, ReserveGpus(plan=plan), Apply(manifest=manifest))
    )
    if not search.is_news(record):
        # It is recorded already: a later write was refused, and is tried again.
        return found
    events = _change_events(change, f"{search.cause.why}: {text}")
    return replace(found, events=events, replan=record)


def _not_admitted(more: str) -> str:
    return f"its queue has not admitted {more}; suspended and resumed, the job waits for them"


def _change_text(old: Plan, new: Plan, change: Moves) -> str:
    return (
        f"{old.prediction.samples_per_second:.3g} -> "
        f"{new.prediction.samples_per_second:.3g} samples/s and "
        f"${old.prediction.dollars_per_hour:.2f} -> ${new.prediction.dollars_per_hour:.2f}/h "
        f"predicted; {_rollouts(change)}{_inference(change)}; the trainer "
        + ("moves, from its last checkpoint" if change.moves_trainer else "stays")
    )


def _rollouts(change: Moves) -> str:
    return f"{change.num_rollouts_before} -> {change.num_rollouts_after} rollout pods"


def _inference(change: Moves) -> str:
    if not (change.num_inference_before or change.num_inference_after):
        return ""
    return f", {change.num_inference_before} -> {change.num_inference_after} inference pods"


def _change_events(change: Moves, text: str) -> tuple[Event, ...]:
    replanned = Event(reason=EventReason.REPLANNED, message=text)
    if change.num_rollouts_before == change.num_rollouts_after:
        return (replanned,)
    return (replanned, Event(reason=EventReason.SCALED_ROLLOUT, message=_rollouts(change)))


def _replan_inputs(search: _Search) -> ReplanInputs:
    written, spec = search.parsed.written, search.parsed.spec
    shown = search.seen.job.status.progress
    done = shown.step if shown else 0
    return ReplanInputs(
        replan=written.planning.effective_replan,
        batch_size=spec.algorithm.global_batch_size,
        steps_done=done,
        steps_left=max(0, spec.training.steps - done),
        required_rate=_required_rate(spec, search, max(1, spec.training.steps - done)),
        keeps_checkpoints=written.storage.checkpoints.persistent_volume_claim is not None,
    )


def _required_rate(spec: JobSpec, search: _Search, steps_left: int) -> float | None:
    """Return the sufficient rate in samples per second; None: the highest possible one."""
    match spec.planning.objective:
        case MinimiseCost(required_samples_per_second=required):
            return required
        case MeetDeadline(seconds_left=seconds):
            left = seconds - (search.now - search.seen.job.created_at).total_seconds()
            return steps_left * spec.algorithm.global_batch_size / max(1.0, left)
        case _:
            return None
