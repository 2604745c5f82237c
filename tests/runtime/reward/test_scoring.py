"""Scoring in processes of their own: what takes for ever or fails is not judged."""

import os
import signal
import threading
import time

import pytest

from hetrl_core.job.reward import RegexReward, RewardPart
from hetrl_core.job.spec import DataSpec
from hetrl_runtime.reward import scoring
from hetrl_runtime.reward.scoring import VerifierPool
from hetrl_runtime.reward.verdict import (
    Response,
    Unjudged,
    UnjudgedError,
    UnjudgedReason,
    Verdict,
)

BACKTRACKS = (RewardPart(name="form", reward="regex", regex=RegexReward(pattern=r"(a+)+$")),)
MATH = DataSpec(prompts="").parts
HARD, EASY = (Response(text=text, reference="") for text in ("a" * 64 + "!", "aaaa"))


@pytest.mark.slow
async def test_endless_response_is_unjudged_and_harms_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with VerifierPool(BACKTRACKS, max_processes=1) as pool:
        assert await pool.score(EASY) == 1.0
        verdict = await pool.score(HARD)
        assert await pool.score(EASY) == 1.0

    assert isinstance(verdict, Unjudged)
    assert str(verdict) == "TimeLimit: takes more than 5 s of processor time"
    assert str(verdict) in caplog.text


@pytest.mark.slow
async def test_judge_that_waits_for_a_processor_still_gives_its_verdict() -> None:
    async with VerifierPool(MATH, max_processes=1) as pool:
        await pool.score(Response(text="1", reference="1"))
        (judge,) = pool._pool._pool_manager.worker_manager.workers
        os.kill(judge, signal.SIGSTOP)
        threading.Timer(scoring.JUDGE_CPU_SECONDS + 1, os.kill, (judge, signal.SIGCONT)).start()
        started = time.monotonic()
        verdict = await pool.score(Response(text=r"\boxed{\frac{2}{8}}", reference="0.25"))

    assert verdict == 1.0
    assert time.monotonic() - started > scoring.JUDGE_CPU_SECONDS


@pytest.mark.slow
async def test_judge_that_raises_is_unjudged(monkeypatch: pytest.MonkeyPatch) -> None:
    async with VerifierPool(MATH, max_processes=1) as pool:
        # It must be known to the other process, and it cannot make anything of texts.
        monkeypatch.setattr(scoring, "_score", divmod)
        verdict = await pool.score(Response(text="x", reference="y"))

    assert isinstance(verdict, Unjudged)
    assert str(verdict).startswith("ProcessLost: TypeError")


def test_verdict_is_remembered_and_its_absence_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts: list[Verdict] = [Unjudged(reason=UnjudgedReason.FUNCTION_RAISED, detail="x"), 1.0]
    monkeypatch.setattr(scoring, "_judges", {"a part": lambda _: verdicts.pop(0)})
    arguments = ("a part", "a response", "a reference", "", "{}")

    with pytest.raises(UnjudgedError):
        scoring._reward(*arguments)
    assert scoring._reward(*arguments) == 1.0
    assert scoring._reward(*arguments) == 1.0


async def test_unknown_reward_is_refused_before_anything_starts() -> None:
    with pytest.raises(
        ValueError, match="must be one of exact, math, model, python, regex, got 'guess'"
    ):
        VerifierPool(DataSpec(prompts="", reward="guess").parts)
