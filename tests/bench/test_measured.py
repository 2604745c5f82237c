"""Published rows, their halves and the fit: the bench's own arithmetic."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bench.planner.measured import layouts, page, prediction
from bench.planner.measured.calibration import (
    Parameters,
    calibrates,
    fitted,
    halves,
    mean_absolute_error,
)
from bench.planner.measured.case import Gain, InferredLength, Run, StepTime, Transfer
from bench.planner.measured.page import Answer
from bench.planner.measured.rows import NEMO, ROWS, VERL_LENGTH
from hetrl_planner.cost import generation, memory
from hetrl_planner.layout.layout import faults

SHIPPED = Parameters()


def runs() -> list[Run]:
    found: list[Run] = []
    for row in ROWS:
        match row.measured:
            case StepTime(run=run):
                found.append(run)
            case Gain(slower=slower, faster=faster):
                found += [slower, faster]
    return found


def a_run(**changes: object) -> Run:
    """verl's smallest, with an eighth of its work."""
    work = replace(VERL_LENGTH.run.work, batch_size=256, minibatches=4, max_response_tokens=4096)
    return replace(VERL_LENGTH.run, work=work, **changes)  # type: ignore[arg-type]


# Halves


def test_calibration_takes_first_and_last_of_four_rows() -> None:
    assert [calibrates(number) for number in range(1, 9)] == [
        True,
        False,
        False,
        True,
        True,
        False,
        False,
        True,
    ]


def test_halves_share_out_every_row_once_and_are_equally_large() -> None:
    calibrating, untouched = halves(ROWS)
    assert {*calibrating, *untouched} == {*ROWS}
    assert len(calibrating) + len(untouched) == len(ROWS)
    assert abs(len(calibrating) - len(untouched)) <= 1


@pytest.mark.parametrize("half", [0, 1], ids=["calibrating", "untouched"])
def test_halves_have_every_kind_of_row(half: int) -> None:
    rows = halves(ROWS)[half]
    assert {type(row.measured) for row in rows} == {StepTime, Gain, Transfer}
    modes = {row.measured.run.work.is_synchronous for row in rows if hasattr(row.measured, "run")}
    assert modes == {True, False}


# The fit


def test_fit_finds_the_parameters_that_made_the_numbers() -> None:
    truth = Parameters(
        compute_efficiency=0.3,
        memory_efficiency=0.5,
        engine_step_seconds=4e-3,
        weights_link_share=0.2,
    )

    found = fitted(_made_up, _made_up(truth), start=SHIPPED)

    assert _made_up(found) == pytest.approx(_made_up(truth), rel=0.01)
    assert found.compute_efficiency == pytest.approx(0.3, rel=0.05)
    assert found.weights_link_share == pytest.approx(0.2, rel=0.05)


def test_fit_stays_within_what_is_possible() -> None:
    # Four times as quick as any share of a link allows.
    found = fitted(lambda tried: [1 / tried.weights_link_share], [0.25], start=SHIPPED)
    assert found.weights_link_share == 1.0


def test_fit_that_can_gain_nothing_leaves_everything_as_it_is() -> None:
    found = fitted(_made_up, _made_up(SHIPPED), start=SHIPPED)
    assert _made_up(found) == pytest.approx(_made_up(SHIPPED))


def test_error_counts_alike_on_either_side() -> None:
    assert mean_absolute_error([150.0, 50.0, 100.0], [100.0, 100.0, 100.0]) == pytest.approx(1 / 3)


def test_summary_counts_each_half_and_what_lies_in_the_band() -> None:
    answers = [
        Answer(
            number=number,
            row=row,
            calibrates=calibrates(number),
            shipped=1.2 * row.published,
            fitted=(1.0 if calibrates(number) else 0.7) * row.published,
            played=None,
        )
        for number, row in enumerate(ROWS, start=1)
    ]

    summary = list(page._summary(answers))

    assert "| calibrated on | 15 | 20% | 0% | 15 | 15 |" in summary
    assert "| untouched | 14 | 20% | 30% | 14 | 0 |" in summary


def _made_up(at: Parameters) -> Sequence[float]:
    """Step times in the cost model's manner: sums of work over each figure."""
    return [
        compute / at.compute_efficiency
        + hbm / at.memory_efficiency
        + steps * at.engine_step_seconds
        for compute, hbm, steps in ((30, 5, 200), (5, 40, 500), (8, 8, 9000), (20, 20, 0))
    ] + [1.2 / at.weights_link_share]


# The rows


@pytest.mark.parametrize("line", NEMO, ids=lambda line: f"{line.version} {line.model} {line.kind}")
def test_nemo_rls_rate_and_length_leave_room_for_a_prompt(line: object) -> None:
    # Rate, time and average length were copied by hand, each from its own column.
    assert 100 <= line.prompt <= 135  # type: ignore[attr-defined]


def test_runs_lie_on_the_published_gpus() -> None:
    for run in runs():
        devices = layouts.evaluator_of(run, SHIPPED).devices
        layout = layouts.layout_of(run, devices)
        assert faults(layout, devices, num_layers=run.work.architecture.num_layers) == ()
        assert len(layout.gpus) == devices.num_gpus == run.num_gpus
        assert len(layout.groups) == (1 if run.shares_gpus else 2)


# Predictions


def test_inferred_length_trains_as_long_as_published() -> None:
    length = InferredLength(run=a_run(), training_seconds=10.0)
    tokens = prediction.response_tokens(length, SHIPPED)
    spent = prediction.priced(prediction.responding(length.run, tokens), SHIPPED)
    assert spent.training_side_seconds == pytest.approx(10.0, rel=0.01)


def test_weights_take_their_bytes_over_the_share_of_the_link() -> None:
    transfer = Transfer(size_bytes=60e9, link_bytes_per_second=50e9)
    half = replace(SHIPPED, weights_link_share=0.5)
    assert prediction.predicted(transfer, SHIPPED) == pytest.approx(1.2, rel=1e-3)
    assert prediction.predicted(transfer, half) == pytest.approx(2.4, rel=1e-3)


@pytest.mark.parametrize(
    "changed",
    [
        Parameters(compute_efficiency=0.3),
        Parameters(memory_efficiency=0.4),
        Parameters(engine_step_seconds=5e-3),
    ],
    ids=["compute", "memory", "engine"],
)
def test_parameters_each_make_a_step_longer(changed: Parameters) -> None:
    before, after = (prediction.priced(a_run(), each).step_seconds for each in (SHIPPED, changed))
    assert after > before


def test_prediction_leaves_the_cost_models_constants_alone() -> None:
    before = generation.ENGINE_STEP_SECONDS, memory.MAX_CONCURRENCY
    prediction.priced(a_run(max_num_seqs=64), Parameters(engine_step_seconds=0.05))
    assert before == (generation.ENGINE_STEP_SECONDS, memory.MAX_CONCURRENCY)


def test_training_on_parts_as_they_come_shortens_a_step() -> None:
    whole = a_run()
    apart = replace(whole, shares_gpus=False)
    seconds = [prediction.played(replace(apart, streamed_parts=parts), SHIPPED) for parts in (1, 4)]
    assert seconds[1] < 0.95 * seconds[0]
    assert np.isfinite(seconds).all()
