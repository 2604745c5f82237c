"""A seeded sample of the proof on GSM8K, on problems of our own."""

import random

import pytest

from bench.proof.gsm8k import Found, Judged, page, prove
from bench.proof.malformed import malformed
from hetrl_runtime.data.prompt import Prompt
from hetrl_runtime.reward.verdict import Unjudged, UnjudgedReason

PROBLEMS = [
    Prompt(
        question=f"What is {n} times 250?",
        answer=f"It is <<{n}*250={n * 250}>>.\n#### {said}",
        line=n + 1,
    )
    for n, said in enumerate(["0", "250", "500", "750", "1,000", "1000", "-3"])
]


@pytest.mark.slow
def test_references_are_themselves_and_malformed_responses_crash_nothing() -> None:
    found = prove(PROBLEMS, num_malformed=80)

    assert not found.not_themselves
    assert not found.wrong_neighbours
    assert len(found.judged) == 80
    assert all(each.reward in {0.0, 1.0} for each in found.judged)
    assert "| malformed responses that crashed the worker | 0 of 80 | 0 |" in page(found)


def test_slow_or_wrong_verifier_fails_the_check() -> None:
    unjudged = Unjudged(reason=UnjudgedReason.TIME_LIMIT, detail="takes too long")
    fine = Judged(response="", reward=0.0, seconds=0.001)
    good = Found(
        count=1, not_themselves=(), equal_neighbours=0, wrong_neighbours=(), judged=(fine,) * 99
    )

    def but(**changes: object) -> Found:
        values = {name: getattr(good, name) for name in good.__slots__}
        return Found(**{**values, **changes})

    slow = Judged(response="", reward=0.0, seconds=0.1)
    assert good.holds
    assert but(judged=(fine,) * 99 + (slow,)).holds
    assert not but(judged=(fine,) * 98 + (slow,) * 2).holds
    assert not but(judged=(fine,) * 999 + (Judged(response="", reward=unjudged, seconds=0),)).holds
    assert not but(not_themselves=("1",)).holds
    assert not but(wrong_neighbours=("1 and 2",)).holds


def test_malformed_responses_follow_from_the_seed_and_differ() -> None:
    def some(seed: int) -> list[str]:
        rng = random.Random(seed)
        return [malformed(rng, PROBLEMS[1].answer) for _ in range(50)]

    assert some(1) == some(1)
    assert some(1) != some(2)
    assert len(set(some(1))) > 40
