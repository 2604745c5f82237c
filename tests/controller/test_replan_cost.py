"""The arithmetic of a move, by hand: what it gains, what it costs, and the verdict."""

from dataclasses import replace

import pytest

from hetrl_api.job.planning import Replan
from hetrl_core.plan.plan import MemoryUse, Plan
from hetrl_operator.decide.plan.pod_diff import Moves, moves
from hetrl_operator.decide.plan.replan_cost import (
    START_SECONDS,
    ReplanEvaluation,
    ReplanInputs,
    Unit,
    evaluate,
)
from hetrl_operator.model.reasons import ReplanOutcome
from tests.controller.values import a_plan

STAY = a_plan().prediction
"""128 samples a second for $5.50 an hour; weights take 0.1 s."""


def another(*, rate: float = 128.0, dollars: float = 5.5, **places: object) -> Plan:
    plan = a_plan(**places)  # type: ignore[arg-type]
    expected = replace(plan.prediction, samples_per_second=rate, dollars_per_hour=dollars)
    return replace(plan, prediction=expected)


def inputs(**changes: object) -> ReplanInputs:
    found = ReplanInputs(replan=Replan(), batch_size=256, steps_left=1_000_000)
    return replace(found, **changes)  # type: ignore[arg-type]


MORE = moves(a_plan(), a_plan(rollouts=("l4-0", "l4-0", "l4-1")))
ELSEWHERE = moves(a_plan(), a_plan(rollouts=("l4-0", "l4-1")))
TRAINER = moves(a_plan(), a_plan(machine="a100-7"))


def test_rollout_more_stops_nothing_and_gains_from_when_it_generates() -> None:
    found = evaluate(STAY, another(rate=160), moves=MORE, inputs=inputs())

    change = START_SECONDS + 0.1
    assert found.unit is Unit.SAMPLES
    assert found.window_seconds == pytest.approx(1800 - change)
    assert found.gain == pytest.approx(32 * (1800 - change))
    assert found.cost == 0
    assert found.outcome == ReplanOutcome.ADOPTED


def test_moving_rollout_costs_its_share_and_half_of_its_work() -> None:
    found = evaluate(STAY, another(rate=160), moves=ELSEWHERE, inputs=inputs())

    assert ELSEWHERE.stopped_share == 0.5
    assert found.cost_of_starts == pytest.approx(128 / 2 * START_SECONDS)
    assert found.cost_of_weights == pytest.approx(128 / 2 * 0.1)
    assert found.cost_of_lost_work == pytest.approx(16 / 2)


def test_trainer_that_moves_stops_everything_and_loses_half_a_step() -> None:
    plan = another(rate=160, machine="a100-7")
    heavy = MemoryUse(weights_bytes=20 * 10**9, optimizer_bytes=40 * 10**9)
    plan = replace(plan, groups=(replace(plan.groups[0], memory=heavy), *plan.groups[1:]))

    found = evaluate(STAY, plan, moves=TRAINER, inputs=inputs())

    assert found.cost_of_starts == pytest.approx(128 * START_SECONDS)
    assert found.cost_of_weights == pytest.approx(128 * (0.1 + 60))
    assert found.cost_of_lost_work == pytest.approx(0.5 * 256)


def test_moving_trainer_without_durable_checkpoints_loses_every_step() -> None:
    found = evaluate(
        STAY,
        another(rate=1280, machine="a100-7"),
        moves=TRAINER,
        inputs=inputs(steps_done=10_000, keeps_checkpoints=False),
    )

    assert found.cost_of_lost_work == pytest.approx(10_000.5 * 256)
    assert found.outcome == ReplanOutcome.TOO_DEAR


def test_job_that_ends_soon_has_no_time_to_gain() -> None:
    found = evaluate(STAY, another(rate=1280), moves=MORE, inputs=inputs(steps_left=20))

    assert found.window_seconds == 0
    assert found.outcome == ReplanOutcome.TOO_DEAR


@pytest.mark.parametrize(
    ("rate", "percent", "outcome"),
    [
        pytest.param(140.7, 10, ReplanOutcome.TOO_LITTLE, id="just-below"),
        pytest.param(140.9, 10, ReplanOutcome.ADOPTED, id="just-above"),
        pytest.param(120, 0, ReplanOutcome.TOO_LITTLE, id="slower"),
    ],
)
def test_gain_must_be_large_enough(rate: float, percent: float, outcome: str) -> None:
    replan = Replan(min_improvement_percent=float(percent))

    found = evaluate(STAY, another(rate=rate), moves=MORE, inputs=inputs(replan=replan))

    assert found.outcome == outcome


def evaluation(**changes: object) -> ReplanEvaluation:
    """A move that gains 10 samples a second, 100 in all, and costs 99."""
    found = ReplanEvaluation(
        unit=Unit.SAMPLES,
        before=100.0,
        after=110.0,
        window_seconds=10.0,
        cost_of_starts=60.0,
        cost_of_weights=30.0,
        cost_of_lost_work=9.0,
        least_percent=10.0,
    )
    return replace(found, **changes)  # type: ignore[arg-type]


FREE = evaluation(unit=Unit.DOLLARS, before=0.0, after=0.0, cost_of_lost_work=-90.0)


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        pytest.param(evaluation(), ReplanOutcome.ADOPTED, id="more-than-it-costs"),
        pytest.param(
            evaluation(cost_of_lost_work=10.0), ReplanOutcome.TOO_DEAR, id="as-much-as-it-costs"
        ),
        pytest.param(
            evaluation(after=109.9), ReplanOutcome.TOO_LITTLE, id="less-than-the-least-gain"
        ),
        pytest.param(
            evaluation(before=0.0, after=10.0, least_percent=100.0),
            ReplanOutcome.ADOPTED,
            id="from-nothing",
        ),
        pytest.param(FREE, ReplanOutcome.TOO_LITTLE, id="from-no-price-to-none"),
        pytest.param(
            replace(FREE, least_percent=0.0), ReplanOutcome.TOO_LITTLE, id="no-gain-at-all"
        ),
    ],
)
def test_outcome_compares_gain_with_cost_and_least_improvement(
    found: ReplanEvaluation, outcome: str
) -> None:
    assert found.outcome == outcome


def test_dollars_count_where_the_rate_stays() -> None:
    found = evaluate(STAY, another(dollars=2.5), moves=ELSEWHERE, inputs=inputs())

    change = START_SECONDS + 0.1
    assert found.unit is Unit.DOLLARS
    assert found.gain == pytest.approx(3.0 * (1800 - change) / 3600)
    # What is not generated is worth what the job pays for as much.
    assert found.cost_of_starts == pytest.approx(5.5 / 3600 / 2 * START_SECONDS)
    assert str(found).startswith("gains $3.00/h ($5.50 -> $2.50) over 1740 s = $1.45; costs $")


@pytest.mark.parametrize(
    ("required", "rate", "unit"),
    [
        pytest.param(100, 110, Unit.DOLLARS, id="both-suffice"),
        pytest.param(100, 400, Unit.DOLLARS, id="more-than-enough-is-no-gain"),
        pytest.param(150, 160, Unit.SAMPLES, id="the-fleet-has-become-too-slow"),
    ],
)
def test_job_that_wants_a_rate_counts_dollars_once_reached(
    required: float, rate: float, unit: Unit
) -> None:
    found = evaluate(
        STAY, another(rate=rate, dollars=2), moves=MORE, inputs=inputs(required_rate=required)
    )

    assert found.unit is unit


APART = a_plan(inference=("l4-8", "l4-9"))


@pytest.mark.parametrize(
    ("new", "started", "stopped", "moves_trainer", "share"),
    [
        pytest.param(APART, 0, 0, False, 0, id="the-same"),
        pytest.param(a_plan(inference=("l4-8",)), 0, 1, False, 0.5, id="one-less"),
        pytest.param(a_plan(inference=("l4-8", "l4-9", "l4-9")), 1, 0, False, 0, id="one-more"),
        pytest.param(a_plan(inference=("l4-8", "l4-7")), 1, 1, False, 0.5, id="one-elsewhere"),
        pytest.param(a_plan(), 3, 5, True, 1, id="trainers-score-instead"),
    ],
)
def test_inference_workers_move_as_rollouts_do(
    new: Plan, started: int, stopped: int, *, moves_trainer: bool, share: float
) -> None:
    found = moves(APART, new)

    assert (found.num_started, found.num_stopped) == (started, stopped)
    assert (found.moves_trainer, found.stopped_share) == (moves_trainer, share)
    assert found.num_rollouts_before == found.num_rollouts_after == 2


def test_inference_workers_that_stop_take_no_trajectory_with_them() -> None:
    assert moves(APART, a_plan(inference=("l4-8", "l4-7"))).stopped_concurrency == 0


def test_plans_that_differ_in_nothing_move_nothing() -> None:
    assert moves(a_plan(), a_plan()).is_none


@pytest.mark.parametrize(
    ("new", "started", "stopped", "moves_trainer"),
    [
        pytest.param(a_plan(rollouts=("l4-0",)), 0, 1, False, id="one-less"),
        pytest.param(a_plan(rollouts=("l4-0",) * 3), 1, 0, False, id="one-more"),
        pytest.param(a_plan(rollouts=("l4-1", "l4-0")), 1, 1, False, id="one-elsewhere"),
        pytest.param(a_plan(machine="a100-7"), 1, 1, True, id="trainer-elsewhere"),
        pytest.param(a_plan(trainers=2), 2, 1, True, id="two-trainers"),
    ],
)
def test_pods_that_move_are_counted(
    new: Plan, started: int, stopped: int, *, moves_trainer: bool
) -> None:
    found: Moves = moves(a_plan(), new)

    assert (found.num_started, found.num_stopped) == (started, stopped)
    assert found.moves_trainer is moves_trainer
