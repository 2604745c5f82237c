"""Archived plans: which are kept, their annotations, and which are deleted."""

from dataclasses import replace

import pytest

from hetrl_operator.decide.plan.auto import planned
from hetrl_operator.model.actions import AnnotatePlan, Delete, StartPlanning
from hetrl_operator.model.labels import ACTIVE_FOR, PLANNED_FOR, REPLACED_BECAUSE, REPLACES_BECAUSE
from tests.controller.cluster_model import ClusterModel, a_cluster, a_running_job, uids
from tests.controller.values import NOW, a_job, a_plan, an_observation, parsed_of


def scale(cluster: ClusterModel, replicas: int, **planning: object) -> str:
    """Have the job follow another plan; return the name of the one before."""
    before = cluster.followed.name
    cluster.answer = a_plan(rollouts=("l4-0",) * replicas)
    cluster.change(rollout={"replicas": replicas}, planning=planning)
    cluster.settle()
    cluster.make_ready()
    cluster.settle()
    assert cluster.followed.name != before
    return before


def annotations(cluster: ClusterModel, name: str) -> dict[str, str]:
    found: dict[str, str] = cluster.plan_bodies[name]["metadata"]["annotations"]
    return found


@pytest.mark.parametrize(
    ("planning", "kept"),
    [
        pytest.param({}, 2, id="two-unless-said"),
        pytest.param({"historyLimit": 3}, 3, id="as-many-as-said"),
        pytest.param({"historyLimit": 0}, 0, id="none"),
    ],
)
def test_last_plans_are_kept_and_the_oldest_go(planning: dict[str, int], kept: int) -> None:
    cluster = a_running_job(a_job(planning=planning))

    followed = [scale(cluster, number, **planning) for number in (3, 4, 5, 6)]

    assert cluster.past == followed[len(followed) - kept :]
    assert cluster.job.status.phase == "Running"


def test_lower_limit_deletes_the_oldest() -> None:
    cluster = a_running_job()
    followed = [scale(cluster, number) for number in (3, 4)]

    cluster.change(rollout={"replicas": 4}, planning={"historyLimit": 1})
    cluster.settle()

    assert cluster.past == followed[1:]


def test_oldest_plan_is_deleted_when_another_is_archived() -> None:
    cluster = a_running_job()
    for number in (3, 4):
        scale(cluster, number)
    assert len(cluster.past) == 2
    cluster.answer = a_plan(rollouts=("l4-0",) * 5)
    cluster.change(rollout={"replicas": 5})

    kept = []
    for _ in range(5):
        cluster.round()
        kept.append(len(cluster.past))

    assert kept == [2] * 5


def test_plan_says_whether_it_is_active_and_why_replaced() -> None:
    cluster = a_running_job()
    before = scale(cluster, 3)

    past, now = annotations(cluster, before), annotations(cluster, cluster.followed.name)

    assert now[ACTIVE_FOR] == "math"
    assert ACTIVE_FOR not in past
    assert past[REPLACED_BECAUSE].startswith("SpecChanged: 128 -> 128 samples/s")
    assert "2 -> 3 rollout pods" in past[REPLACED_BECAUSE]


@pytest.mark.parametrize(
    ("spec", "is_reserved", "is_active"),
    [
        pytest.param({}, True, True, id="reserved"),
        pytest.param({}, False, False, id="not-reserved-yet"),
        pytest.param({"planning": {"mode": "PlanOnly"}}, False, False, id="plan-only"),
    ],
)
def test_plan_is_active_once_its_gpus_are_reserved(
    spec: dict[str, object], *, is_reserved: bool, is_active: bool
) -> None:
    job = a_job(**spec)
    seen = an_observation(job)
    planning = replace(seen.planning, is_reserved=is_reserved)

    actions = planned(replace(seen, planning=planning), parsed_of(job), NOW).actions

    marks = [
        each
        for each in actions
        if isinstance(each, AnnotatePlan) and ACTIVE_FOR in each.annotations
    ]
    assert bool(marks) is is_active


def test_active_plan_alone_is_visible_to_v0_1_0() -> None:
    cluster = a_running_job()
    for number in (3, 4):
        scale(cluster, number)

    seen = [name for name in cluster.plans if PLANNED_FOR in annotations(cluster, name)]

    assert seen == [cluster.followed.name]


def test_job_at_rest_writes_nothing_on_its_plans() -> None:
    cluster = a_running_job()
    scale(cluster, 3)
    cluster.written.clear()

    for _ in range(3):
        cluster.round()

    assert not [each for each in cluster.written if isinstance(each, AnnotatePlan | Delete)]


def test_plan_of_an_earlier_release_is_only_marked() -> None:
    cluster = a_running_job()
    name, before = cluster.followed.name, uids(cluster)
    body = cluster.plan_bodies[name]
    del body["metadata"]["annotations"][ACTIVE_FOR]
    cluster.store_plan(body)
    cluster.written.clear()

    cluster.settle()

    (written,) = cluster.written
    assert written == AnnotatePlan(
        name=name, uid=cluster.followed.uid, annotations={ACTIVE_FOR: "math"}
    )
    assert uids(cluster) == before


def test_plan_of_plan_only_mode_is_used_without_another_search() -> None:
    cluster = a_cluster(a_job(planning={"mode": "PlanOnly"}), a_plan())
    cluster.settle()
    planned = cluster.followed
    assert ACTIVE_FOR not in annotations(cluster, planned.name)
    cluster.written.clear()

    cluster.change(planning={"mode": "Auto"})
    cluster.settle()

    assert cluster.followed.name == planned.name
    assert annotations(cluster, planned.name)[ACTIVE_FOR] == "math"
    assert not [each for each in cluster.written if isinstance(each, StartPlanning)]
    assert cluster.pods


def test_plan_of_a_suspended_job_is_kept_after_spec_change() -> None:
    cluster = a_running_job()
    before = cluster.followed.name
    cluster.change(suspend=True)
    cluster.settle()

    cluster.change(rollout={"replicas": 1})
    cluster.settle()

    assert cluster.past == [before]
    said = annotations(cluster, before)[REPLACED_BECAUSE]
    assert said == "the planning fields of the job changed"


def test_replacement_reason_is_known_where_the_list_is_stale() -> None:
    cluster = a_running_job()
    before, status = cluster.followed.name, cluster.job.status
    cluster.answer = a_plan(rollouts=("l4-0",) * 3)
    cluster.change(rollout={"replicas": 3})
    while len(cluster.plans) == 1:
        cluster.round()
    assert cluster.job.status.last_replan

    cluster.set_status(status)
    cluster.settle()

    assert "2 -> 3 rollout pods" in annotations(cluster, before)[REPLACED_BECAUSE]


def test_plan_in_use_again_does_not_repeat_its_first_reason() -> None:
    cluster = a_running_job()
    first = scale(cluster, 3)
    second = cluster.followed.name
    annotations(cluster, second)[REPLACES_BECAUSE] = "of the first time"
    cluster.store_plan(cluster.plan_bodies[second])

    for name, replicas in ((first, 2), (second, 3)):
        planning = {"mode": "Manual", "planRef": name}
        cluster.change(rollout={"replicas": replicas}, planning=planning)
        cluster.settle()
        assert cluster.followed.name == name

    assert "2 -> 3 rollout pods" in annotations(cluster, first)[REPLACED_BECAUSE]
    assert REPLACES_BECAUSE not in annotations(cluster, second)
