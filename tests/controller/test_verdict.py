"""The verdict on a job: the reason and the words of its end."""

from datetime import timedelta

import pytest

from hetrl_core.launch import TERMINAL_EXIT_CODE
from hetrl_operator.decide.terminal import Verdict, verdict
from hetrl_operator.model.observed import ProgressSeen
from hetrl_operator.model.reasons import Reason
from tests.controller.cluster_model import a_cluster
from tests.controller.values import NOW, PODS, a_job, a_plan, a_report, an_observation, ended

COORDINATOR, TRAINER, *ROLLOUTS = PODS


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        pytest.param(a_report(3), None, id="it goes on"),
        pytest.param(
            a_report(10, finished=True, outcome="Succeeded"),
            Verdict(
                succeeded=True, reason=Reason.ALL_STEPS_DONE, message="10 of 10 steps are done"
            ),
            id="success in no words",
        ),
        pytest.param(
            a_report(10, finished=True, outcome="Succeeded", message="the last one is saved"),
            Verdict(succeeded=True, reason=Reason.ALL_STEPS_DONE, message="the last one is saved"),
            id="success in words",
        ),
        pytest.param(
            a_report(4, finished=True, outcome="Failed"),
            Verdict(
                succeeded=False, reason=Reason.TRAINER_FAILED, message="4 of 10 steps are done"
            ),
            id="failure in no words",
        ),
        pytest.param(
            a_report(4, finished=True, outcome="Failed", reason="DataInvalid", message="line 7"),
            Verdict(succeeded=False, reason="DataInvalid", message="line 7"),
            id="failure in words",
        ),
    ],
)
def test_final_report_is_the_verdict(report: ProgressSeen, expected: Verdict | None) -> None:
    assert verdict(an_observation(pods=PODS, progress=report), NOW) == expected


@pytest.mark.parametrize(
    ("words", "reason", "message"),
    [
        pytest.param("", Reason.TRAINER_FAILED, "it ended without saying why", id="no words"),
        pytest.param("out of disk", Reason.TRAINER_FAILED, "out of disk", id="no reason"),
        pytest.param("DataInvalid: line 7", "DataInvalid", "line 7", id="a reason first"),
        pytest.param(
            "loading\nError: DataInvalid: line 7\n", "DataInvalid", "line 7", id="the last line"
        ),
    ],
)
def test_process_that_gives_up_ends_the_job_with_reason(
    words: str, reason: str, message: str
) -> None:
    pods = (COORDINATOR, ended(TRAINER, TERMINAL_EXIT_CODE, words), *ROLLOUTS)

    found = verdict(an_observation(pods=pods), NOW)

    assert found == Verdict(succeeded=False, reason=reason, message=f"{TRAINER.name}: {message}")


@pytest.mark.parametrize(
    ("seconds", "has_ended"),
    [pytest.param(59, False, id="a second before"), pytest.param(60, True, id="at its deadline")],
)
def test_job_ends_when_its_deadline_is_reached(seconds: int, *, has_ended: bool) -> None:
    cluster = a_cluster(a_job(activeDeadlineSeconds=60), a_plan())
    cluster.settle()
    start = cluster.job.status.start_time
    assert start

    found = verdict(cluster.observe(), start + timedelta(seconds=seconds))

    assert (found is not None) is has_ended
    assert not found or found.reason == Reason.DEADLINE_EXCEEDED
