"""Failures on a real API server: restarts, rules and limits."""

from typing import Any

import pytest

from hetrl_operator.model.reasons import EventReason, Reason
from tests.controller.api_server import COORDINATOR, old_enough_to_fail, pod_of, start, tells, uids
from tests.controller.operator_process import Namespace, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.mark.parametrize(
    ("policy", "role", "code", "again"),
    [
        pytest.param({"role": "trainer", "action": "RestartPod"}, "trainer", 1, "", id="pod"),
        pytest.param(
            {"role": "rollout", "action": "RestartRole", "onExitCodes": [7]},
            "rollout",
            7,
            "-rollout-",
            id="role",
        ),
        pytest.param(
            {"role": "coordinator", "action": "RestartJob"}, "coordinator", 1, "sums", id="job"
        ),
    ],
)
def test_failure_restarts_what_its_rule_says(
    space: Namespace, policy: dict[str, Any], role: str, code: int, again: str
) -> None:
    before = start(space, rollout={"replicas": 2}, failurePolicy={"rules": [policy]})
    old_enough_to_fail()
    meant = {name for name in before if again and again in name}

    space.end_container(pod_of(space, role), exit_code=code, message="CUDA error")

    recorded = eventually(lambda: space.job()["status"].get("recentRestarts"), what="a record")
    assert recorded[0]["action"] == policy["action"]
    eventually(
        lambda: (
            {name for name, uid in before.items() if uids(space).get(name, uid) != uid} == meant
            and uids(space).keys() == before.keys()
        ),
        what=f"{meant} are other pods",
    )
    if meant:
        space.wait_for_phase("Running")
        name = EventReason.JOB_RESTARTED if again == "sums" else EventReason.ROLE_RESTARTED
        assert "CUDA error" in tells(space, name)


def test_rule_fails_the_job_for_an_exit_code(space: Namespace) -> None:
    rule = {"name": "no-data", "role": "trainer", "action": "Fail", "onExitCodes": [42]}
    start(space, failurePolicy={"rules": [rule]})

    space.end_container(pod_of(space, "trainer"), exit_code=42, message="no rows left")

    failed = space.wait_for_reason("Failed", Reason.FAILURE_POLICY)
    assert "no-data of spec.failurePolicy.rules" in failed["message"]
    assert "no rows left" in failed["message"]


def test_restarts_beyond_the_limit_fail_the_job(space: Namespace) -> None:
    start(space, failurePolicy={"maxRestarts": 0, "windowSeconds": 600})
    old_enough_to_fail()

    space.end_container(pod_of(space, "trainer"), exit_code=1, message="CUDA out of memory")

    failed = space.wait_for_reason("Failed", Reason.BACKOFF_LIMIT_EXCEEDED)
    assert "1 restarts within 600 s, spec.failurePolicy.maxRestarts is 0" in failed["message"]


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        pytest.param("rollout", Reason.ROLLOUT_FAILED, id="rollout"),
        pytest.param("coordinator", Reason.COORDINATOR_FAILED, id="coordinator"),
    ],
)
def test_process_that_gives_up_names_its_role(space: Namespace, role: str, reason: str) -> None:
    start(space)

    space.end_container(pod_of(space, role), exit_code=3, message="cannot go on")

    assert "cannot go on" in space.wait_for_reason("Failed", reason)["message"]


@pytest.mark.parametrize(
    "reason", [Reason.NO_LEARNING_SIGNAL, Reason.NOT_FINITE, Reason.ENGINE_MISMATCH]
)
def test_coordinator_says_why_a_run_ended(space: Namespace, reason: str) -> None:
    start(space)

    space.end_container(COORDINATOR, exit_code=3, message=f"{reason}: rewards never vary")

    found = space.wait_for_reason("Failed", reason)
    assert "rewards never vary" in found["message"]


SEVERAL_TRAINERS: dict[str, Any] = {
    "model": {
        "source": {"path": "/models/large"},
        "architecture": {
            "hiddenSize": 2048,
            "layers": 28,
            "queryHeads": 16,
            "kvHeads": 8,
            "headDim": 128,
            "ffnSize": 6144,
            "vocabSize": 151936,
            "tiedEmbeddings": True,
        },
    },
    "data": {"prompts": {"path": "/data"}, "maxPromptTokens": 512, "maxResponseTokens": 1024},
    "resources": {"maxGPUs": 3, "pools": [{"name": "a100", "gpuProduct": "A100-80GB"}]},
    "rollout": {"replicas": 1},
}
"""A model so large that two of three A100s train it, data-parallel."""


@pytest.mark.parametrize("how", ["crash", "loss"])
def test_trainers_restart_together_and_rollouts_stay(space: Namespace, how: str) -> None:
    before = start(space, **SEVERAL_TRAINERS)
    trainers = uids(space, "-trainer-")
    assert len(trainers) == 2
    old_enough_to_fail()

    if how == "crash":
        space.end_container(min(trainers), exit_code=1, message="NCCL error")
    else:
        space.cluster.kubectl("delete", "-n", space.name, "pod", min(trainers), "--wait=false")

    tells(space, EventReason.TRAINER_RESTARTED)
    eventually(
        lambda: (
            not set(trainers.values()) & set(uids(space).values())
            and uids(space).keys() == before.keys()
        ),
        what="every trainer is another pod",
    )
    space.wait_for_phase("Running")
    others = {name: uid for name, uid in before.items() if name not in trainers}
    assert others.items() <= uids(space).items()
    assert space.job()["status"]["restarts"] == 1
