"""Conditions of a job whose pods are not ready yet."""

import pytest

from hetrl_operator.decide import decide
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.observed import PodSeen
from hetrl_operator.model.reasons import ConditionType
from tests.controller.values import (
    NOW,
    PODS,
    SETTINGS,
    a_job,
    a_plan,
    a_plan_seen,
    a_pod,
    an_observation,
)

COORDINATOR, TRAINER, FIRST, SECOND = PODS
STARTING = a_pod("rollout-l4-0", 1, is_ready=False)


@pytest.mark.parametrize(
    ("pods", "rollouts", "running"),
    [
        ((), "0 of 2 pods are ready: no pod exists yet", "no pod exists yet"),
        (
            (COORDINATOR, TRAINER),
            "0 of 2 pods are ready: no pod exists yet",
            "the others do not exist yet",
        ),
        (
            (COORDINATOR, FIRST),
            "1 of 2 pods are ready: the others do not exist yet",
            "the others do not exist yet",
        ),
        (
            (COORDINATOR, FIRST, STARTING),
            f"1 of 2 pods are ready: {STARTING.name}: started, not ready yet",
            f"{STARTING.name}: started, not ready yet",
        ),
    ],
)
def test_awaited_pod_is_named_or_does_not_exist_yet(
    pods: tuple[PodSeen, ...], rollouts: str, running: str
) -> None:
    job = a_job(rollout={"minReplicas": 2})
    plan = a_plan_seen(job, a_plan(rollouts=("l4-0", "l4-0")))

    written = decide(an_observation(job, plans=(plan,), pods=pods), NOW, SETTINGS).status

    assert written
    asked = (ConditionType.ROLLOUT_READY, ConditionType.RUNNING)
    found = [condition(written.status, each) for each in asked]
    assert [each.message for each in found if each] == [rollouts, running]
