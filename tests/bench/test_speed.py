"""The stand-in for GPUs in the bench of splits, and the task of all sides."""

import asyncio
import random
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

from bench.runtime.floor import Measured, table
from bench.runtime.paced import PacedEngine
from bench.runtime.page import difference_of
from bench.runtime.parts import Floor, decoders, shapes
from bench.runtime.steps import MEMORY_KEPT, ROUNDED, Sums, finalists_of
from bench.runtime.task import LONG, SHORT, SMALL, Lengths, make_model, reward
from bench.runtime.turns import Turn
from hetrl_runtime.rollout.engine import Generation, GenerationRequest

REQUEST = GenerationRequest(id="1", prompt_tokens=(1,), max_tokens=16)
TEN = Lengths(name="10", fewest=10, most=10)


async def generated(engine: PacedEngine, count: int) -> tuple[list[Generation], float]:
    """Ask for responses at once; return them and the seconds they took."""
    started = time.monotonic()
    found = await asyncio.gather(*(engine.generate(REQUEST) for _ in range(count)))
    return found, time.monotonic() - started


async def test_responses_take_time_by_tokens_at_the_common_pace() -> None:
    engine = PacedEngine(token_seconds=(0.001, 0.005), load_seconds=0.0, lengths=TEN, seed=1)
    await engine.start()

    _, alone = await generated(engine, 1)
    found, together = await generated(engine, 2)

    await engine.stop()
    assert alone >= 0.01
    # The second may be asked for when the first has some tokens, at its own pace.
    assert together >= 0.03
    assert [len(each.tokens) for each in found] == [10, 10]


async def test_tokens_keep_the_version_that_they_were_sampled_by() -> None:
    engine = PacedEngine(token_seconds=(0.03,), load_seconds=0.01, lengths=TEN, seed=1)
    await engine.start()
    response = asyncio.create_task(engine.generate(REQUEST))
    while engine.version == 0:
        await asyncio.sleep(0.1)
        await engine.update_weights(b"", version=1)

    versions = (await response).versions

    await engine.stop()
    assert len(versions) == 10
    assert set(versions) == {0, 1}
    assert list(versions) == sorted(versions)


@pytest.mark.parametrize("lengths", [SHORT, LONG], ids=lambda each: each.name)
def test_lengths_keep_to_their_range(lengths: Lengths) -> None:
    source = random.Random(1)
    drawn = {lengths.draw(source) for _ in range(2_000)}
    assert min(drawn) == lengths.fewest
    assert max(drawn) == lengths.most


@pytest.mark.parametrize(
    ("response", "expected"),
    [("aaaa", 1.0), ("abab", 0.5), ("zzz", 0.0), ("aaa", 1.0), ("a" * 15, 1.0)],
)
def test_reward_is_the_share_of_right_letters(response: str, expected: float) -> None:
    assert reward("abcdefghijk=", response, min_tokens=4, max_tokens=16) == expected


@pytest.mark.parametrize("num_letters", [0, 1, 2, 16, 17])
def test_response_of_another_length_earns_nothing(num_letters: int) -> None:
    assert reward("abcdefghijk=", "a" * num_letters, min_tokens=4, max_tokens=16) == 0


def test_rewards_are_compared_by_step_without_the_warm_up() -> None:
    difference, error = difference_of([0.0, 0.25, 0.5, 0.75], [1.0, 0.25, 0.25, 0.25])

    assert difference == pytest.approx(0.25)
    assert error == pytest.approx(0.25 / 3**0.5)


def a_rate(samples_per_cpu_second: float) -> Sums:
    return Sums(
        samples_per_second=1.0,
        samples_per_cpu_second=samples_per_cpu_second,
        tokens_per_sample=1.0,
        rewards=(),
    )


def test_finalists_are_trls_fastest_with_and_without_continuous_batching() -> None:
    ways: dict[str, dict[str, object]] = {
        "whole": {"continuous": False},
        "quarter": {"continuous": False},
        "died": {"continuous": False},
        "continuous": {"continuous": True},
        MEMORY_KEPT: {"continuous": False},
        ROUNDED: {"continuous": True},
    }
    tried = {
        "whole": a_rate(2.0),
        "quarter": a_rate(3.0),
        "died": "killed",
        "continuous": a_rate(1.0),
        MEMORY_KEPT: a_rate(9.0),
        ROUNDED: a_rate(9.0),
    }

    assert finalists_of(ways, tried) == ["quarter", "continuous"]


def test_finalists_of_no_setting_that_ran_raise() -> None:
    with pytest.raises(RuntimeError, match="killed"):
        finalists_of({"whole": {"continuous": False}}, {"whole": "killed"})


def test_floor_multiplies_by_every_matrix_of_the_model_only(tmp_path: Path) -> None:
    make_model(tmp_path, replace(SMALL, lessons=1), SHORT)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)

    expected = [tuple(each.weight.shape) for each in model.modules() if type(each) is nn.Linear]

    assert list(shapes(SMALL)) == expected


def test_row_multiplication_agrees_in_all_ways() -> None:
    torch.manual_seed(0)
    matrices = [torch.randn(48, 32), torch.randn(16, 32)]
    rows = torch.randn(5, 32)
    for multiply in decoders(matrices, 5):
        for found, matrix in zip(multiply([rows, rows]), matrices, strict=True):
            torch.testing.assert_close(found, rows @ matrix.T)


def test_floor_table_compares_each_side_with_our_parts() -> None:
    turn = Turn(seconds=9.0, cpu_seconds=4.0, num_samples=32, num_tokens=320, reward=0.0)
    floor = Floor(training=1.5, prefill=0.1, decoding=0.9, adamw=0.25, weights=0.25)
    found = Measured(
        ours=turn,
        trl=replace(turn, cpu_seconds=7.5),
        ours_floor=floor,
        trl_floor=replace(floor, training=2.5),
    )

    printed = table([found, found])

    assert "| whole | 4 | 7.5 |" in printed
    assert "| these together | 3 | 4 |" in printed
    assert (
        "1.88 times ours, 3.00 times its products, and 2.50 times all these parts of it" in printed
    )
