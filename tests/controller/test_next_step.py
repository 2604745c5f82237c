"""The state machine of a search: each state of the planner, and the step that follows."""

from dataclasses import replace
from typing import Any

import pytest

from hetrl_core.plan.plan import Infeasible
from hetrl_operator.decide import decide
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
from hetrl_operator.decide.status.progress import SHORTEST_SECONDS, next_write_seconds
from hetrl_operator.model.actions import ReleaseGpus, StartPlanning
from hetrl_operator.model.planning import Alternatives, PlannerError
from hetrl_operator.model.reasons import Reason
from tests.controller.values import (
    NOW,
    PODS,
    SETTINGS,
    a_job,
    a_plan,
    a_report,
    an_observation,
    later,
)

NO_PLAN = Infeasible(reasons=("no GPU",))
ERROR = PlannerError(reason=Reason.PLANNING, message="it died")
OTHERS = Alternatives(current=a_plan().prediction, plans=(a_plan(),))
FAILED = {"answer": ERROR, "answered_at": NOW, "num_failures": 1}


@pytest.mark.parametrize(
    ("state", "accepts_outdated", "step"),
    [
        pytest.param({}, False, Start, id="nothing was searched"),
        pytest.param({"answer": a_plan(), "answer_request_id": "x"}, False, Start, id="of another"),
        pytest.param({"is_running": True, "answer_request_id": "x"}, False, Start, id="runs else"),
        pytest.param({"is_running": True}, False, Wait, id="it runs"),
        pytest.param({"answer": a_plan()}, False, Follow, id="a plan"),
        pytest.param({"answer": a_plan(), "is_outdated": True}, False, Start, id="an old plan"),
        pytest.param({"answer": OTHERS}, False, Choose, id="alternatives"),
        pytest.param({"answer": NO_PLAN}, False, Refuse, id="no plan"),
        pytest.param({"answer": NO_PLAN, "is_outdated": True}, False, Start, id="an old refusal"),
        pytest.param({"answer": NO_PLAN, "is_outdated": True}, True, Refuse, id="old, accepted"),
        pytest.param(FAILED, False, Retry, id="the planner failed"),
        pytest.param(
            {**FAILED, "answered_at": later(seconds=-3600)}, False, Start, id="its backoff is over"
        ),
    ],
)
def test_planner_state_has_one_next_step(
    state: dict[str, Any], accepts_outdated: bool, step: type[NextStep]
) -> None:
    seen = an_observation(plans=())
    seen = replace(seen, planning=replace(seen.planning, **state))

    found = next_step(seen, "", NOW, accepts_outdated=accepts_outdated)

    assert isinstance(found, step)


@pytest.mark.parametrize(
    ("is_reserved", "pods", "is_released"),
    [(True, (), True), (True, PODS, False), (False, (), False)],
)
def test_reservation_without_pods_is_released_before_a_search(
    is_reserved: bool, pods: tuple[Any, ...], is_released: bool
) -> None:
    seen = an_observation(plans=(), pods=pods)
    seen = replace(seen, planning=replace(seen.planning, is_reserved=is_reserved))

    actions = decide(seen, NOW, SETTINGS).actions

    assert any(isinstance(each, StartPlanning) for each in actions)
    assert any(isinstance(each, ReleaseGpus) for each in actions) is is_released


def test_next_write_of_progress_needs_a_new_report() -> None:
    assert next_write_seconds(an_observation(), NOW) is None

    seen = an_observation(progress=a_report())
    written = decide(seen, NOW, SETTINGS).status
    assert written
    seen = replace(seen, job=replace(a_job(), status=written.status))
    assert next_write_seconds(seen, NOW) is None

    newer = replace(seen, progress=a_report(step=4, received_at=later(seconds=1)))
    assert next_write_seconds(newer, later(seconds=1)) == SHORTEST_SECONDS - 1


def test_notices_of_a_report_are_in_the_status() -> None:
    notices = tuple(f"{number} of 1,000 prompts are left out" for number in range(9))

    written = decide(an_observation(progress=a_report(notices=notices)), NOW, SETTINGS).status

    assert written
    assert written.status.progress
    assert written.status.progress.notices == notices[:8]
