"""Changes of a status that can wait a moment, and changes that cannot."""

from dataclasses import replace
from typing import Any

import pytest

from hetrl_api.job.status import JobStatus
from hetrl_core.plan.plan import Infeasible
from hetrl_operator.decide import decide
from hetrl_operator.decide.status.debounce import can_wait
from hetrl_operator.model.actions import Decision, Event
from hetrl_operator.model.observed import PodSeen
from hetrl_operator.model.planning import PlanningSeen
from hetrl_operator.model.reasons import EventReason
from tests.controller.values import (
    NOW,
    PODS,
    SETTINGS,
    a_job,
    a_plan,
    a_plan_seen,
    a_pod,
    a_report,
    an_observation,
)

COORDINATOR, TRAINER, *TWO = PODS
FIRST, SECOND, THIRD = (*TWO, a_pod("rollout-l4-0", 2))
ALL = (*PODS, THIRD)


def waiting(pod: PodSeen) -> PodSeen:
    return replace(pod, is_ready=False)


def decided(
    before: tuple[PodSeen, ...], after: tuple[PodSeen, ...], **news: Any
) -> tuple[JobStatus, Decision]:
    """The status of what was seen before, and the decision on what is seen after."""
    job = a_job()
    plan = a_plan_seen(job, a_plan(rollouts=("l4-0", "l4-0", "l4-0")))
    seen = an_observation(job, plans=(plan,), pods=before)
    first = decide(seen, NOW, SETTINGS).status
    assert first
    shown = replace(job, status=first.status)
    second = decide(replace(seen, job=shown, pods=after, **news), NOW, SETTINGS)
    assert second.status, "there is news"
    return first.status, second


def waits(before: tuple[PodSeen, ...], after: tuple[PodSeen, ...], **news: Any) -> bool:
    """Whether what is seen after can wait, once the status of what was seen before is written."""
    return can_wait(*decided(before, after, **news))


def test_count_of_pods_can_wait() -> None:
    others, third = (COORDINATOR, TRAINER, FIRST), waiting(THIRD)

    assert waits((*others, waiting(SECOND), third), (*others, SECOND, third))
    assert waits((*others, SECOND, third), (*others, waiting(SECOND), third))


def test_reason_change_can_wait() -> None:
    others, starts = (COORDINATOR, *TWO, THIRD), waiting(TRAINER)
    pulls = replace(starts, waiting_reason="ImagePullBackOff", waiting_message="no such image")

    assert waits((*others, starts), (*others, pulls))


def test_status_with_an_event_is_written_at_once() -> None:
    asked = an_observation(a_job(), plans=())
    key = asked.planning.spec_key
    asks = replace(asked, planning=PlanningSeen(spec_key=key, is_running=True))
    refused = replace(asked.planning, answer=Infeasible(reasons=("no GPU",)))
    first = decide(asks, NOW, SETTINGS).status
    assert first

    shown = replace(asks.job, status=first.status)
    second = decide(replace(asks, job=shown, planning=refused), NOW, SETTINGS)

    assert [each.reason for each in second.events] == ["PlanInfeasible"]
    assert not can_wait(first.status, second)


def test_event_is_announced_at_once_where_no_condition_changed() -> None:
    others = (COORDINATOR, TRAINER, FIRST)
    before, decision = decided((*others, waiting(SECOND)), (*others, SECOND))
    assert can_wait(before, decision)

    announced = Event(reason=EventReason.POD_REPLACED, message="another one started")

    assert not can_wait(before, replace(decision, events=(announced,)))


def test_decision_without_a_status_is_not_delayed() -> None:
    assert not can_wait(JobStatus(), Decision())


@pytest.mark.parametrize("pod", [COORDINATOR, TRAINER])
def test_status_with_a_changed_condition_is_written_at_once(pod: PodSeen) -> None:
    others = tuple(each for each in ALL if each != pod)

    assert not waits((*others, waiting(pod)), ALL)
    assert not waits(ALL, (*others, waiting(pod)))


def test_status_with_a_new_step_is_written_at_once() -> None:
    assert not waits(ALL, ALL, progress=a_report())
