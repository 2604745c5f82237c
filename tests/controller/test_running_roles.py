"""Pods of a job that is being stopped: which are needed, and what condition Suspended says."""

import pytest

from hetrl_core.task import Role
from hetrl_operator.decide.pods.running_roles import roles_while_stopping, suspended_finding
from hetrl_operator.model.observed import PodSeen
from hetrl_operator.model.reasons import Reason
from tests.controller.values import PODS, an_observation

COORDINATOR, TRAINER, *ROLLOUTS = PODS


@pytest.mark.parametrize(
    ("pods", "needed", "reason", "message"),
    [
        pytest.param(
            PODS,
            {Role.COORDINATOR, Role.ROLLOUT, Role.INFERENCE},
            Reason.SUSPENDING,
            "1 trainer pods write a checkpoint and stop",
            id="trainers-first",
        ),
        pytest.param(
            (COORDINATOR, *ROLLOUTS), set(), Reason.SUSPENDING, "3 pods stop", id="then-the-others"
        ),
        pytest.param(
            (), set(), Reason.SUSPENDED, "no pod is left, and no GPU is held", id="none-is-left"
        ),
    ],
)
def test_suspension_stops_trainers_first_and_reports_what_it_waits_for(
    pods: tuple[PodSeen, ...], needed: set[Role], reason: str, message: str
) -> None:
    seen = an_observation(pods=pods)

    found = suspended_finding(seen)

    assert roles_while_stopping(seen) == needed
    assert (found.reason, found.message) == (reason, message)
    assert found.holds is (reason == Reason.SUSPENDED)
