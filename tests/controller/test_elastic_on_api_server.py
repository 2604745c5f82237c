"""Changes under a running job on a real API server: scale, autoscaler, spec, lost nodes."""

from typing import Any

import pytest

from hetrl_operator.model.reasons import EventReason, Reason
from tests.controller.api_server import (
    COORDINATOR,
    L4,
    events,
    nodes_of,
    scale,
    silent,
    start,
    tells,
    uids,
)
from tests.controller.operator_process import Namespace, a_job, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_scaling_adds_and_removes_rollouts_and_touches_nothing_else(space: Namespace) -> None:
    before = start(space, resources={}, rollout={"replicas": 2})

    scale(space, 4)
    eventually(lambda: len(uids(space, "-rollout-")) == 4, what="four rollouts")
    space.wait_for_phase("Running")
    grown = uids(space)
    assert {name: grown[name] for name in before} == before
    scale(space, 1)
    eventually(lambda: len(uids(space, "-rollout-")) == 1, what="one rollout")

    assert uids(space).items() <= grown.items()
    assert space.job()["status"]["rollout"]["replicas"] == 1
    assert {"2 -> 4 rollout pods", "4 -> 1 rollout pods"} <= set(
        events(space, EventReason.SCALED_ROLLOUT)
    )
    assert "the trainer stays" in events(space, EventReason.REPLANNED)[0]


def test_autoscaler_moves_the_rollouts_and_the_trainer_stays(space: Namespace) -> None:
    before = start(space, resources={}, rollout={"replicas": 1})
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "rollouts"},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "hetrl.dev/v1alpha1",
                "kind": "HetRLJob",
                "name": "sums",
            },
            "minReplicas": 3,
            "maxReplicas": 5,
        },
    }

    space.apply(autoscaler)

    eventually(lambda: len(uids(space, "-rollout-")) == 3, what="three rollouts")
    assert before.items() <= uids(space).items()
    assert space.job()["spec"]["rollout"]["replicas"] == 3
    space.cluster.kubectl("delete", "-n", space.name, "hpa", "rollouts")


def test_infeasible_number_of_rollouts_changes_nothing_and_is_reported(
    space: Namespace,
) -> None:
    before = start(space, resources=L4, rollout={"replicas": 2})

    scale(space, 500)

    drift = space.wait_for_reason("Degraded", Reason.PLAN_DRIFT)
    eventually(
        lambda: "another plan is being made" not in space.condition("Degraded")["message"],
        what="the planner's answer",
    )
    assert drift["status"] == "True"
    assert space.phase() == "Running"
    assert uids(space) == before
    scale(space, 2)
    space.wait_for_reason("Degraded", Reason.CHECKPOINTS_NOT_DURABLE)


@pytest.mark.parametrize(
    ("change", "restarted"),
    [
        pytest.param({"startupDeadlineSeconds": 77}, (), id="in-place"),
        pytest.param(
            {"training": {"steps": 20}}, ("-coordinator-", "-trainer-"), id="from-the-checkpoint"
        ),
        pytest.param(
            {"runtime": {"images": {"rollout": "hetrl/rollout:next"}}},
            ("-rollout-",),
            id="rollouts-alone",
        ),
    ],
)
def test_changed_spec_replaces_the_pods_that_it_concerns(
    space: Namespace, change: dict[str, Any], restarted: tuple[str, ...]
) -> None:
    before = start(space, rollout={"replicas": 2})

    space.patch(change)

    meant = {name for name in before if any(word in name for word in restarted)}
    eventually(
        lambda: (
            {n for n, uid in before.items() if uids(space).get(n, uid) != uid} == meant
            and uids(space).keys() == before.keys()
            and space.condition("Running").get("observedGeneration", 0) > 1
        ),
        what=f"{meant} are other pods",
    )
    space.wait_for_phase("Running")
    assert space.job()["status"]["restarts"] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"model": {"revision": "x"}}, "spec.model", id="model"),
        pytest.param({"data": {"maxPromptTokens": 99}}, "spec.data cannot change", id="data"),
        pytest.param({"algorithm": {"groupSize": 2}}, "spec.algorithm cannot", id="algorithm"),
        pytest.param({"training": {"seed": 2}}, "spec.training.seed cannot change", id="seed"),
        pytest.param(
            {"storage": {"checkpoints": {"persistentVolumeClaim": "other"}}},
            "spec.storage can change only while spec.suspend is true",
            id="storage",
        ),
    ],
)
def test_immutable_spec_of_a_run_cannot_change(
    space: Namespace, change: dict[str, Any], said: str
) -> None:
    space.apply(a_job(planning={"mode": "PlanOnly"}))

    with pytest.raises(Exception, match=said):
        space.patch(change)


def test_lost_node_of_a_rollout_is_replaced_beside_the_trainer(
    space: Namespace,
) -> None:
    # More rollouts than one machine holds, and all other A100s taken: they go to another pool.
    start(space, resources={}, rollout={"replicas": 10}, failurePolicy={"nodeLostSeconds": 3})
    trainers = uids(space, "-trainer-")
    lost = min(nodes_of(space, "-rollout-") - nodes_of(space, "-trainer-"))

    with silent(space.cluster, lost):
        degraded = space.wait_for_reason("Degraded", Reason.NODE_LOST)
        assert lost in degraded["message"]
        eventually(
            lambda: (
                lost not in nodes_of(space, "-rollout-")
                and "" not in nodes_of(space, "-rollout-")
                and len(uids(space, "-rollout-")) == 10
            ),
            what="ten rollouts elsewhere",
        )
        space.wait_for_phase("Running")
        assert uids(space, "-trainer-") == trainers
        assert COORDINATOR in uids(space)
        assert f"{lost} does not answer" in tells(space, EventReason.REPLANNED)
