"""A job in mode Manual: its plan is validated first, always kept, and may be returned to."""

from dataclasses import replace
from typing import Any

import pytest

from hetrl_api.plan.to_core import from_plan
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_core.task import Role
from hetrl_operator.model.actions import AnnotatePlan, Delete, ReserveGpus, StartPlanning
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.labels import ACTIVE_FOR
from hetrl_operator.model.planning import InsufficientFreeGpus, PlannerError
from hetrl_operator.model.reasons import (
    ConditionType,
    EventReason,
    Reason,
    ReplanOutcome,
    ReplanReason,
)
from tests.controller.cluster_model import (
    ClusterModel,
    a_cluster,
    a_running_job,
    reason_of,
    uids,
)
from tests.controller.values import a_job, a_plan, later

THREE_ROLLOUTS = a_plan(rollouts=("l4-0", "l4-0", "l4-1"))


def naming(plan: str) -> dict[str, Any]:
    return {"mode": "Manual", "planRef": plan}


def write_plan(cluster: ClusterModel, name: str, plan: Plan) -> None:
    """Let somebody write a HetRLPlan."""
    cluster.store_plan(
        {
            "apiVersion": "hetrl.dev/v1alpha1",
            "kind": "HetRLPlan",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "creationTimestamp": later(days=1).isoformat(),
            },
            "spec": from_plan(plan).model_dump(mode="json", by_alias=True, exclude_none=True),
        }
    )


def a_manual_job(plan: Plan | None = None) -> ClusterModel:
    """A job that runs by a plan that somebody wrote."""
    cluster = a_cluster(a_job(planning=naming("mine")), a_plan())
    write_plan(cluster, "mine", plan or a_plan())
    run(cluster)
    assert cluster.job.status.phase == "Running"
    return cluster


def run(cluster: ClusterModel) -> None:
    cluster.settle()
    cluster.make_ready()
    cluster.settle()


def searches(cluster: ClusterModel) -> list[StartPlanning]:
    started = [each for each in cluster.written if isinstance(each, StartPlanning)]
    return [each for each in started if each.manual_plan is None]


def said(cluster: ClusterModel, type_: str) -> str:
    found = condition(cluster.job.status, type_)
    assert found
    return found.message


def test_job_runs_by_just_the_plan_that_it_names() -> None:
    cluster = a_manual_job(THREE_ROLLOUTS)

    assert cluster.job.status.plan
    assert cluster.job.status.plan.name == "mine"
    assert list(cluster.plans) == ["mine"]
    assert cluster.plans["mine"].active_for == "math"
    assert len(uids(cluster, Role.ROLLOUT)) == 3
    assert not searches(cluster)


def test_manual_plan_is_validated_before_anything_is_created() -> None:
    cluster = a_cluster(a_job(planning=naming("mine")), a_plan())
    write_plan(cluster, "mine", a_plan())

    cluster.round()

    (validate,) = [each for each in cluster.written if isinstance(each, StartPlanning)]
    assert validate.manual_plan == a_plan()
    assert reason_of(cluster, ConditionType.PLANNED) == Reason.PLANNING
    assert not cluster.children
    assert not [each for each in cluster.written if isinstance(each, ReserveGpus)]


def test_plan_that_is_missing_is_waited_for() -> None:
    cluster = a_cluster(a_job(planning=naming("mine")), a_plan())

    cluster.settle()
    assert reason_of(cluster, ConditionType.PLANNED) == Reason.PLAN_NOT_FOUND
    assert "HetRLPlan mine does not exist in namespace default" in said(
        cluster, ConditionType.PLANNED
    )
    assert cluster.job.status.phase == "Pending"
    write_plan(cluster, "mine", a_plan())
    run(cluster)

    assert cluster.job.status.phase == "Running"


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        pytest.param(
            Infeasible(reasons=("spec.groups[0].tensor must divide the 4 query heads, got 3",)),
            Reason.PLAN_DOES_NOT_FIT,
            "HetRLPlan mine does not fit: spec.groups[0].tensor must divide",
            id="misfit",
        ),
        pytest.param(
            InsufficientFreeGpus(reasons=("l4-0 is taken",), held_gpus=2),
            Reason.INSUFFICIENT_FREE_GPUS,
            "other jobs hold 2 GPUs",
            id="taken",
        ),
        pytest.param(
            PlannerError(reason=Reason.PLANNER_FAILED, message="exit code 9"),
            Reason.PLANNER_FAILED,
            "exit code 9; failure 1 in a row",
            id="trouble",
        ),
    ],
)
def test_plan_that_cannot_be_run_by_says_why(answer: Any, reason: str, words: str) -> None:
    cluster = a_cluster(a_job(planning=naming("mine")), a_plan())
    write_plan(cluster, "mine", a_plan())
    cluster.validate = lambda _: answer

    cluster.settle()

    assert reason_of(cluster, ConditionType.PLANNED) == reason
    assert words in said(cluster, ConditionType.PLANNED)
    assert cluster.messages_of(EventReason.PLAN_INFEASIBLE)
    assert not cluster.children


def test_manual_plan_is_validated_again_after_a_fleet_change() -> None:
    cluster = a_cluster(a_job(planning=naming("mine")), a_plan())
    write_plan(cluster, "mine", a_plan())
    cluster.validate = lambda _: Infeasible(reasons=("machine l4-0 is not one",))
    cluster.settle()

    cluster.validate = lambda plan: plan
    cluster.move_fleet("another")
    run(cluster)

    assert cluster.job.status.phase == "Running"


def test_manual_job_is_not_searched_when_the_fleet_changes() -> None:
    cluster = a_manual_job()
    before = uids(cluster)
    cluster.answer = THREE_ROLLOUTS

    cluster.move_fleet("another")
    cluster.pass_time(hours=1)
    cluster.settle()

    assert not searches(cluster)
    assert uids(cluster) == before
    assert reason_of(cluster, ConditionType.DEGRADED) == Reason.AS_PLANNED


def test_leaving_machine_is_reported_and_nothing_is_done() -> None:
    cluster = a_manual_job()
    before = uids(cluster)

    cluster.leaving = {"l4-0": "maintenance"}
    cluster.settle()

    assert reason_of(cluster, ConditionType.DEGRADED) == Reason.PLAN_DRIFT
    text = said(cluster, ConditionType.DEGRADED)
    assert text == "l4-0: maintenance; spec.planning.mode Manual keeps the plan"
    assert uids(cluster) == before
    assert not searches(cluster)


def test_spec_that_outgrew_its_manual_plan_is_reported() -> None:
    cluster = a_manual_job()
    before = uids(cluster)
    cluster.validate = lambda _: Infeasible(reasons=("rollout replicas must be >= 3, got 2",))

    cluster.change(planning=naming("mine"), rollout={"replicas": 3})
    cluster.settle()

    assert reason_of(cluster, ConditionType.DEGRADED) == Reason.PLAN_DRIFT
    assert "rollout replicas must be >= 3, got 2" in said(cluster, ConditionType.DEGRADED)
    assert uids(cluster) == before


def test_newly_named_plan_is_moved_to_in_place() -> None:
    cluster = a_manual_job()
    before = uids(cluster)
    write_plan(cluster, "wider", THREE_ROLLOUTS)

    cluster.change(planning=naming("wider"))
    run(cluster)

    assert cluster.followed.name == "wider"
    assert before.items() <= uids(cluster).items()
    assert len(uids(cluster, Role.ROLLOUT)) == 3
    assert cluster.plans["wider"].active_for == "math"
    assert not cluster.plans["mine"].active_for
    (message,) = cluster.messages_of(EventReason.REPLANNED)
    assert message.startswith("spec.planning.planRef names wider: 128 -> 128 samples/s")
    last = cluster.job.status.last_replan
    assert last
    assert (last.reason, last.outcome) == (ReplanReason.SPEC_CHANGED, ReplanOutcome.ADOPTED)


@pytest.mark.parametrize("is_there", [True, False])
def test_job_keeps_its_plan_while_the_named_one_is_unavailable(is_there: bool) -> None:
    cluster = a_manual_job()
    before = uids(cluster)
    if is_there:
        write_plan(cluster, "wider", THREE_ROLLOUTS)
    cluster.validate = lambda _: Infeasible(reasons=("machine l4-1 is not one",))

    cluster.change(planning=naming("wider"))
    cluster.settle()

    assert cluster.followed.name == "mine"
    assert uids(cluster) == before
    assert reason_of(cluster, ConditionType.DEGRADED) == Reason.PLAN_DRIFT
    words = "machine l4-1 is not one" if is_there else "HetRLPlan wider does not exist"
    assert words in said(cluster, ConditionType.DEGRADED)


def test_plan_named_for_a_moment_leaves_the_job_its_gpus() -> None:
    cluster = a_manual_job()
    write_plan(cluster, "wider", THREE_ROLLOUTS)
    cluster.change(planning=naming("wider"))
    while cluster.held != THREE_ROLLOUTS:
        cluster.round()

    cluster.change(planning=naming("mine"))
    run(cluster)

    assert cluster.followed.name == "mine"
    assert cluster.held == a_plan()
    assert len(uids(cluster, Role.ROLLOUT)) == 2


def test_plan_of_a_user_is_never_deleted_or_changed() -> None:
    cluster = a_manual_job()
    write_plan(cluster, "wider", THREE_ROLLOUTS)
    cluster.change(planning=naming("wider"))
    run(cluster)
    cluster.change(planning={"historyLimit": 0})
    run(cluster)
    cluster.delete_job()
    cluster.settle()

    assert cluster.is_gone
    assert {"mine", "wider"} <= cluster.plans.keys()
    touched = [
        each
        for each in cluster.written
        if isinstance(each, AnnotatePlan) and each.name in {"mine", "wider"}
    ]
    assert {key for each in touched for key in each.annotations} == {ACTIVE_FOR}
    assert not [
        each for each in cluster.written if isinstance(each, Delete) and "wide" in each.name
    ]
    assert not any(cluster.plans[name].active_for for name in ("mine", "wider"))


def test_manual_job_turned_auto_keeps_running_until_planned() -> None:
    cluster = a_manual_job()
    before = uids(cluster)
    cluster.answer = THREE_ROLLOUTS

    cluster.change()
    run(cluster)

    assert cluster.followed.name != "mine"
    assert cluster.followed.plan == THREE_ROLLOUTS
    assert before.items() <= uids(cluster).items()
    (asked,) = searches(cluster)
    assert asked.current == a_plan()


def test_old_plan_is_gone_back_to_by_its_name() -> None:
    cluster = a_running_job()
    first, before = cluster.followed.name, uids(cluster)
    cluster.answer = THREE_ROLLOUTS
    cluster.change(rollout={"replicas": 3})
    run(cluster)
    second = cluster.followed.name

    cluster.change(planning=naming(first))
    run(cluster)

    assert cluster.followed.name == first
    assert cluster.past == [second]
    assert uids(cluster) == before
    assert len(searches(cluster)) == 2

    cluster.change()
    run(cluster)
    assert cluster.followed.name == first, "it answers the spec, so nothing is searched"
    assert len(searches(cluster)) == 2


def test_plan_of_a_plan_only_job_is_used_when_named() -> None:
    cluster = a_cluster(a_job(planning={"mode": "PlanOnly"}), a_plan())
    cluster.settle()
    planned = cluster.followed.name

    cluster.change(planning=naming(planned))
    run(cluster)

    assert cluster.followed.name == planned
    assert cluster.job.status.phase == "Running"
    assert len(searches(cluster)) == 1


def test_resumed_job_has_its_plan_validated_again() -> None:
    cluster = a_manual_job()
    cluster.change(planning=naming("mine"), suspend=True)
    cluster.settle()
    assert cluster.job.status.phase == "Suspended"
    assert cluster.planning
    cluster.planning = replace(cluster.planning, answer=None, answer_request_id="")
    cluster.validate = lambda _: InsufficientFreeGpus(reasons=("l4-0 is taken",), held_gpus=2)

    cluster.change(planning=naming("mine"))
    cluster.settle()

    assert reason_of(cluster, ConditionType.PLANNED) == Reason.INSUFFICIENT_FREE_GPUS
    assert not cluster.pods


@pytest.mark.parametrize("mode", [naming("mine"), {}])
def test_job_whose_plan_was_deleted_can_still_be_suspended(mode: dict[str, Any]) -> None:
    cluster = a_manual_job() if mode else a_running_job()
    cluster.plans.clear()

    cluster.change(planning=mode, suspend=True)
    cluster.settle()

    assert cluster.job.status.phase == "Suspended"
    assert not cluster.pods


def test_pods_of_a_deleted_plan_stay_until_it_is_back() -> None:
    cluster = a_manual_job()
    before = uids(cluster)
    cluster.plans.clear()

    cluster.settle()
    assert reason_of(cluster, ConditionType.PLANNED) == Reason.PLAN_NOT_FOUND
    assert uids(cluster) == before
    write_plan(cluster, "mine", a_plan())
    run(cluster)

    assert cluster.job.status.phase == "Running"
    assert uids(cluster) == before
