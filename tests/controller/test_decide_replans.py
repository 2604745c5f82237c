"""A running job and a fleet that changes: what makes it move, when, and what it says of that."""

from dataclasses import replace

import pytest

from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_core.task import Role
from hetrl_operator.decide.plan.drift import SETTLE_SECONDS
from hetrl_operator.model.actions import StartPlanning
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.planning import Alternatives, PlannerError
from hetrl_operator.model.reasons import (
    ConditionType,
    EventReason,
    Reason,
    ReplanOutcome,
    ReplanReason,
)
from tests.controller.cluster_model import ClusterModel, a_running_job, uids
from tests.controller.values import a_job, a_plan

COOLDOWN_SECONDS = 600
OTHER_L4S = ("l4-0", "l4-0", "l4-1")


def faster(plan: Plan, times: float) -> Plan:
    """The same plan, expected to be so many times as fast."""
    was = plan.prediction
    return replace(
        plan,
        prediction=replace(
            was,
            step_seconds=was.step_seconds / times,
            samples_per_second=was.samples_per_second * times,
        ),
    )


def alternatives(*plans: Plan) -> Alternatives:
    return Alternatives(current=a_plan().prediction, plans=plans)


def a_long_job(**replan: object) -> ClusterModel:
    """A job that runs for longer than any window."""
    job = a_job(training={"steps": 100_000}, planning={"replan": replan})
    return a_running_job(job)


def searches(cluster: ClusterModel) -> int:
    return sum(
        isinstance(each, StartPlanning) and each.enough_percent is not None
        for each in cluster.written
    )


def move(cluster: ClusterModel, fleet: str = "another", *, seconds: float) -> None:
    """Let the fleet be another one, and time pass."""
    cluster.move_fleet(fleet)
    cluster.settle()
    cluster.pass_time(seconds=seconds)
    cluster.settle()


def last(cluster: ClusterModel) -> tuple[str, str]:
    found = cluster.job.status.last_replan
    assert found
    return found.reason, found.outcome


def test_better_plan_is_adopted_with_arithmetic_after_the_cooldown() -> None:
    cluster = a_long_job()
    before = uids(cluster)
    cluster.answer = alternatives(faster(a_plan(rollouts=OTHER_L4S), 1.5))

    move(cluster, seconds=COOLDOWN_SECONDS / 2)
    assert searches(cluster) == 0
    assert cluster.wake_after_seconds is not None
    assert cluster.wake_after_seconds <= COOLDOWN_SECONDS / 2
    cluster.pass_time(seconds=COOLDOWN_SECONDS / 2)
    cluster.settle()

    assert last(cluster) == (ReplanReason.FLEET_CHANGED, ReplanOutcome.ADOPTED)
    (message,) = cluster.messages_of(EventReason.REPLANNED)
    assert message.startswith("the fleet has changed: 128 -> 192 samples/s")
    assert "gains 64 samples/s (128 -> 192) over 1740 s = 111" in message
    assert message.endswith("adopted")
    assert len(uids(cluster, Role.ROLLOUT)) == 3
    assert before.items() <= uids(cluster).items()


@pytest.mark.parametrize(
    ("times", "replan", "outcome", "said"),
    [
        pytest.param(
            1.05,
            {},
            ReplanOutcome.TOO_LITTLE,
            "rejected, 5% is less than the 10% of spec.planning.replan.minImprovementPercent",
            id="too-little",
        ),
        pytest.param(
            1.5,
            {"stabilityWindowSeconds": 60},
            ReplanOutcome.TOO_DEAR,
            "it does not pay",
            id="too-dear",
        ),
    ],
)
def test_plan_that_does_not_pay_is_rejected_with_arithmetic(
    times: float, replan: dict[str, object], outcome: str, said: str
) -> None:
    cluster = a_long_job(**replan)
    before = uids(cluster)
    cluster.answer = alternatives(faster(a_plan(rollouts=OTHER_L4S), times))

    move(cluster, seconds=COOLDOWN_SECONDS)

    assert last(cluster) == (ReplanReason.FLEET_CHANGED, outcome)
    (message,) = cluster.messages_of(EventReason.REPLAN_REJECTED)
    assert said in message
    assert "costs" in message
    assert uids(cluster) == before
    assert condition(cluster.job.status, ConditionType.DEGRADED).reason == Reason.AS_PLANNED  # type: ignore[union-attr]


def test_rejected_plan_is_not_searched_again_for_its_fleet() -> None:
    cluster = a_long_job()
    cluster.answer = alternatives(faster(a_plan(rollouts=OTHER_L4S), 1.05))
    move(cluster, seconds=COOLDOWN_SECONDS)

    for _ in range(3):
        cluster.pass_time(seconds=COOLDOWN_SECONDS)
        cluster.settle()
    assert searches(cluster) == 1
    move(cluster, "a third one", seconds=COOLDOWN_SECONDS)

    assert searches(cluster) == 2
    assert len(cluster.messages_of(EventReason.REPLAN_REJECTED)) == 2


def test_plan_too_costly_is_reevaluated_after_cooldown_without_search() -> None:
    cluster = a_long_job(stabilityWindowSeconds=60)
    cluster.answer = alternatives(faster(a_plan(rollouts=OTHER_L4S), 1.5))
    move(cluster, seconds=COOLDOWN_SECONDS)

    cluster.pass_time(seconds=COOLDOWN_SECONDS)
    cluster.settle()

    assert searches(cluster) == 1
    assert last(cluster)[1] == ReplanOutcome.TOO_DEAR


def test_fleet_that_flaps_is_searched_once_in_a_cooldown() -> None:
    cluster = a_long_job()
    cluster.pass_time(seconds=COOLDOWN_SECONDS)
    cluster.answer = alternatives(faster(a_plan(rollouts=OTHER_L4S), 1.05))

    for number in range(2 * COOLDOWN_SECONDS // 20):
        cluster.move_fleet("fleet" if number % 2 else f"other-{number}")
        cluster.settle()
        cluster.pass_time(seconds=18)
        cluster.settle()

    assert 1 <= searches(cluster) <= 2


def test_fleet_that_is_back_as_it_was_asks_for_nothing() -> None:
    cluster = a_long_job()
    cluster.pass_time(seconds=COOLDOWN_SECONDS)

    cluster.move_fleet("another")
    cluster.settle()
    cluster.move_fleet("fleet")
    cluster.pass_time(seconds=SETTLE_SECONDS)
    cluster.settle()

    assert searches(cluster) == 0


@pytest.mark.parametrize(
    ("plans", "outcome"),
    [
        pytest.param((a_plan(),), ReplanOutcome.UNCHANGED, id="the-same"),
        pytest.param((), ReplanOutcome.UNCHANGED, id="none"),
    ],
)
def test_search_that_finds_nothing_else_is_reported(plans: tuple[Plan, ...], outcome: str) -> None:
    cluster = a_long_job()
    cluster.answer = alternatives(*plans)

    move(cluster, seconds=COOLDOWN_SECONDS)

    assert last(cluster)[1] == outcome
    assert len(cluster.messages_of(EventReason.REPLAN_REJECTED)) == 1


def test_rollout_change_comes_before_a_trainer_change_that_gains_more() -> None:
    cluster = a_long_job()
    beside = faster(a_plan(rollouts=OTHER_L4S), 1.5)
    cluster.answer = alternatives(beside, faster(a_plan(trainers=2), 3))

    move(cluster, seconds=COOLDOWN_SECONDS)

    assert len(uids(cluster, Role.TRAINER)) == 1
    assert len(uids(cluster, Role.ROLLOUT)) == 3


def test_trainer_moves_where_only_that_pays() -> None:
    cluster = a_long_job()
    beside = faster(a_plan(rollouts=OTHER_L4S), 1.01)
    cluster.answer = alternatives(beside, faster(a_plan(trainers=2), 3))

    move(cluster, seconds=COOLDOWN_SECONDS)

    assert len(uids(cluster, Role.TRAINER)) == 2
    assert "the trainer moves" in cluster.messages_of(EventReason.REPLANNED)[0]


def test_job_without_replanning_stays() -> None:
    cluster = a_long_job(onNodeChange=False)

    move(cluster, seconds=10 * COOLDOWN_SECONDS)

    assert searches(cluster) == 0


def test_job_that_does_not_run_waits_until_it_does() -> None:
    cluster = a_long_job()
    name = next(iter(uids(cluster, Role.TRAINER)))
    cluster.pods[name] = replace(cluster.pods[name], is_ready=False)

    move(cluster, seconds=COOLDOWN_SECONDS)
    assert searches(cluster) == 0
    cluster.answer = alternatives()
    cluster.make_ready()
    cluster.settle()

    assert searches(cluster) == 1


def test_plan_of_an_earlier_release_is_kept() -> None:
    cluster = a_long_job()
    cluster.plans = {name: replace(each, fleet="") for name, each in cluster.plans.items()}

    move(cluster, seconds=10 * COOLDOWN_SECONDS)

    assert searches(cluster) == 0


def test_result_for_an_outdated_fleet_is_dropped_and_requested_again() -> None:
    cluster = a_long_job()
    cluster.pass_time(seconds=COOLDOWN_SECONDS)
    cluster.answer = alternatives(faster(a_plan(rollouts=OTHER_L4S), 1.5))
    cluster.move_fleet("another")
    cluster.round()
    cluster.pass_time(seconds=SETTLE_SECONDS)
    cluster.round()
    assert searches(cluster) == 1

    cluster.move_fleet("a third one")
    cluster.settle()

    assert last(cluster)[1] == ReplanOutcome.OUTDATED
    assert searches(cluster) == 1
    cluster.pass_time(seconds=COOLDOWN_SECONDS)
    cluster.settle()
    assert searches(cluster) == 2
    assert last(cluster)[1] == ReplanOutcome.ADOPTED


def test_interrupted_adoption_continues_at_once_and_is_reported_once() -> None:
    cluster = a_long_job()
    cluster.pass_time(seconds=COOLDOWN_SECONDS)
    cluster.answer = alternatives(faster(a_plan(rollouts=OTHER_L4S), 1.5))
    cluster.move_fleet("another")
    cluster.round()
    cluster.pass_time(seconds=SETTLE_SECONDS)
    cluster.round()
    assert cluster.round_without_actions()
    assert last(cluster)[1] == ReplanOutcome.ADOPTED

    cluster.settle()

    assert len(uids(cluster, Role.ROLLOUT)) == 3
    assert cluster.messages_of(EventReason.REPLANNED) == []


def test_planner_error_is_reported_and_retried_after_the_cooldown() -> None:
    cluster = a_long_job()
    cluster.answer = PlannerError(reason=Reason.PLANNER_FAILED, message="it died")

    move(cluster, seconds=COOLDOWN_SECONDS)
    assert last(cluster)[1] == ReplanOutcome.FAILED
    cluster.answer = alternatives(faster(a_plan(rollouts=OTHER_L4S), 1.5))
    cluster.pass_time(seconds=COOLDOWN_SECONDS)
    cluster.settle()

    assert last(cluster)[1] == ReplanOutcome.ADOPTED


def test_zero_cooldown_comes_to_rest() -> None:
    cluster = a_long_job(cooldownSeconds=0)
    cluster.answer = PlannerError(reason=Reason.PLANNER_FAILED, message="it died")

    move(cluster, seconds=SETTLE_SECONDS)
    cluster.pass_time(seconds=SETTLE_SECONDS)
    cluster.settle()

    assert searches(cluster) <= 2


@pytest.mark.parametrize(
    "why", ["about to go (taint karpenter.sh/disrupted)", "taint gone:NoExecute is not tolerated"]
)
def test_machine_about_to_go_is_left_even_at_a_loss(why: str) -> None:
    cluster = a_running_job(rollouts=("l4-0", "l4-1"))
    before = uids(cluster)
    cluster.answer = a_plan(rollouts=("l4-0", "l4-2"))

    cluster.leaving = {"l4-1": why}
    cluster.settle()

    assert last(cluster) == (ReplanReason.NODE_LEAVING, ReplanOutcome.ADOPTED)
    assert f"l4-1: {why}" in cluster.messages_of(EventReason.REPLANNED)[0]
    after = uids(cluster)
    assert {name for name in before if before[name] != after[name]} == {"math-rollout-l4-0-1"}


def test_rollouts_of_a_leaving_machine_leave_together() -> None:
    cluster = a_running_job(rollouts=("l4-0",) * 4 + ("l4-1",) * 4)
    before = uids(cluster, Role.ROLLOUT)
    cluster.answer = a_plan(rollouts=("l4-0",) * 4 + ("l4-2",) * 4)
    cluster.leaving = {"l4-1": "about to go (taint karpenter.sh/disrupted)"}

    cluster.round()
    cluster.round()
    cluster.round()

    after = uids(cluster, Role.ROLLOUT)
    assert len([name for name in before if after[name] != before[name]]) == 4


def test_leaving_machine_of_a_trainer_frees_the_planner() -> None:
    cluster = a_running_job()
    cluster.answer = a_plan(machine="a100-7")

    cluster.leaving = {"a100-0": "being deleted"}
    cluster.settle()

    asked = [each for each in cluster.written if isinstance(each, StartPlanning)][-1]
    assert not asked.keeps_trainer
    assert {pod.node for pod in cluster.pods.values() if pod.role is Role.TRAINER} == {"a100-7"}


def test_infeasible_replan_is_reported_once_and_retried_on_fleet_change() -> None:
    cluster = a_running_job(rollouts=("l4-0", "l4-1"))
    cluster.answer = Infeasible(reasons=("no GPU is left",))

    cluster.leaving = {"l4-1": "being deleted"}
    cluster.settle()
    cluster.pass_time(seconds=10)
    cluster.settle()

    assert last(cluster) == (ReplanReason.NODE_LEAVING, ReplanOutcome.NO_PLAN)
    assert cluster.messages_of(EventReason.REPLAN_REJECTED) == [
        "l4-1: being deleted: no GPU is left"
    ]
    cluster.answer = a_plan(rollouts=("l4-0", "l4-2"))
    cluster.move_fleet("larger")
    cluster.settle()
    assert last(cluster) == (ReplanReason.NODE_LEAVING, ReplanOutcome.ADOPTED)
