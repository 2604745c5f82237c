"""Scoring in a process of its own: what takes for ever or fails is worth nothing."""

import time

import pytest

from hetrl_core.job.spec import DataSpec, RegexReward
from hetrl_runtime.reward import scoring
from hetrl_runtime.reward.scoring import VerifierPool

BACKTRACKS = DataSpec(prompts="", reward="regex", regex=RegexReward(pattern=r"(a+)+$"))


@pytest.mark.slow
async def test_a_response_that_takes_for_ever_is_worth_nothing_and_the_next_is_judged(caplog):
    async with VerifierPool(BACKTRACKS) as pool:
        assert await pool.score("aaaa", "") == 1.0

        started = time.monotonic()
        assert await pool.score("a" * 64 + "!", "") == 0.0
        assert time.monotonic() - started < 30
        assert await pool.score("aaaa", "") == 1.0

    assert "takes more than 2 s" in caplog.text


@pytest.mark.slow
async def test_a_judge_that_raises_is_worth_nothing(monkeypatch, caplog):
    async with VerifierPool(DataSpec(prompts="")) as pool:
        # It must be known to the other process, and it cannot make anything of texts.
        monkeypatch.setattr(scoring, "_score", pow)
        assert await pool.score("x", "y") == 0.0

    assert "TypeError: unsupported operand" in caplog.text


async def test_an_unknown_reward_is_refused_before_anything_starts():
    with pytest.raises(
        ValueError, match="must be one of exact, math, model, python, regex, got 'guess'"
    ):
        VerifierPool(DataSpec(prompts="", reward="guess"))
