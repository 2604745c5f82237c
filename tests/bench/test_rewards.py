"""The proof that rewards do not depend on load: its answers, its rule, and a sample judged."""

import random
from dataclasses import replace

import pytest

from bench.proof.rewards.answers import FORMS, Answer, gsm8k_answers, math_answers
from bench.proof.rewards.judging import Judged, busy_loops, judge
from bench.proof.rewards.page import Found, page
from hetrl_runtime.data.prompt import Prompt
from hetrl_runtime.reward.mathematics import score
from hetrl_runtime.reward.verdict import Unjudged, UnjudgedReason

ANSWER = Answer(form="set", response="1", reference="1", is_right=True)
RIGHT = Judged(verdict=1.0, cpu_seconds=0.01)
WRONG = Judged(verdict=0.0, cpu_seconds=0.01)
UNJUDGED = Judged(
    verdict=Unjudged(reason=UnjudgedReason.TIME_LIMIT, detail="too long"), cpu_seconds=0.0
)
PROBLEMS = [Prompt(question="?", answer=f"#### {n},000", line=n) for n in range(1, 20)]


def test_answers_follow_from_the_seed_and_are_of_all_forms() -> None:
    one, again, other = (math_answers(random.Random(seed), 60) for seed in (1, 1, 2))

    assert one == again != other
    assert len({each.form for each in one}) == len(FORMS)
    assert 10 < sum(each.is_right for each in one) < 50


def test_answers_are_worth_what_they_were_made_to_be() -> None:
    rng = random.Random(3)
    answers = [*math_answers(rng, 90), *gsm8k_answers(rng, PROBLEMS)]

    assert [
        each for each in answers if score(each.response, each.reference) != float(each.is_right)
    ] == []


@pytest.mark.parametrize(
    ("busy", "holds"),
    [
        pytest.param([RIGHT] * 1000, True, id="equal"),
        pytest.param([WRONG] + [RIGHT] * 999, False, id="one changed"),
        pytest.param([UNJUDGED] + [RIGHT] * 999, True, id="one in a thousand not judged"),
        pytest.param([UNJUDGED] * 2 + [RIGHT] * 998, False, id="two not judged"),
        pytest.param([replace(RIGHT, cpu_seconds=1.7)] + [RIGHT] * 999, False, id="slow"),
    ],
)
def test_proof_holds_while_load_changes_no_reward(busy: list[Judged], *, holds: bool) -> None:
    found = Found(answers=(ANSWER,) * 1000, quiet=(RIGHT,) * 1000, busy=tuple(busy))

    assert found.holds is holds
    assert "| set | 1,000 | 1,000 |" in page(found, commit="abc", load=0.5, num_loops=4)


@pytest.mark.slow
def test_sample_is_judged_alike_on_a_busy_machine() -> None:
    answers = math_answers(random.Random(4), 15)

    quiet = judge(answers)
    with busy_loops(2):
        busy = judge(answers)

    found = Found(answers=tuple(answers), quiet=tuple(quiet), busy=tuple(busy))
    assert (found.changed, found.judged_once, found.surprising) == ((), (), ())
    assert found.most_cpu_seconds > 0
