"""Verifiers: what counts as right, and that the short cut for integers is one."""

import subprocess
import sys

import math_verify
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_core.job.reward import LengthPenalty, RegexReward
from hetrl_core.job.spec import DataSpec
from hetrl_runtime.reward.length import length_penalty
from hetrl_runtime.reward.verdict import Response, UnjudgedError
from hetrl_runtime.reward.verifiers import judge_of, verifier

integers = st.integers(-(10**12) + 1, 10**12 - 1)


@pytest.mark.parametrize(
    ("response", "answer", "expected"),
    [
        pytest.param("18", "#### 18", 1.0, id="a bare number"),
        pytest.param("16 - 3 - 4 = 9\n9 * 2 = 18\n#### 18", "#### 18", 1.0, id="GSM8K's form"),
        pytest.param("The answer is \\boxed{18}.", "#### 18", 1.0, id="boxed"),
        pytest.param("#### 18\n\nNext: what is 20?", "#### 18", 1.0, id="chatter below"),
        pytest.param("#### $1,250", "#### 1250", 1.0, id="dollars and thousands"),
        pytest.param("It is \\frac{3}{4}", "0.75", 1.0, id="a fraction as a decimal"),
        pytest.param("18.0", "18", 1.0, id="a trailing zero"),
        pytest.param("17", "18", 0.0, id="another number"),
        pytest.param("-18", "18", 0.0, id="the wrong sign"),
        pytest.param("I do not know.", "18", 0.0, id="no number"),
        pytest.param("", "18", 0.0, id="nothing"),
        pytest.param("\\boxed{9^{9^{9^{9}}}}", "18", 0.0, id="a tower of powers"),
    ],
)
def test_math_judges_by_meaning(response: str, answer: str, expected: float) -> None:
    assert verifier("math")(response, answer) == expected


@settings(max_examples=300, deadline=None)
@given(given_number=integers, offset=st.sampled_from([0, 0, 1, -1, 10]))
@pytest.mark.slow
def test_integers_are_judged_as_math_verify_judges_them(given_number: int, offset: int) -> None:
    response, answer = str(given_number), str(given_number + offset)

    verdict = math_verify.verify(
        math_verify.parse(answer, parsing_timeout=2),
        math_verify.parse(response, parsing_timeout=2),
        timeout_seconds=2,
    )

    assert verifier("math")(response, answer) == float(verdict)


@pytest.mark.parametrize(
    ("response", "expected"), [(" yes\n", 1.0), ("so\n#### yes", 1.0), ("Yes", 0.0), ("18", 0.0)]
)
def test_exact_compares_text(response: str, expected: float) -> None:
    assert verifier("exact")(response, "#### yes") == expected


@pytest.mark.parametrize(
    "answer",
    [
        r"\left( 3, \frac{\pi}{2} \right)",
        "p - q",
        r"\frac{14}{3}",
        "9",
        r"\text{Evelyn}",
        r"90^\circ",
        r"3\sqrt{13}",
        "6 - 5i",
        "-50",
        r"\pi",
        "x=5",
        "1,-2",
        "52_8",
        r"\frac 59",
        r"(0,9) \cup (9,36)",
        r"1 \pm \sqrt{19}",
        r"\text{(C)}",
        "6r^2-4r-24",
        "[-2,7]",
        "7.50",
        r"\begin{pmatrix} -1/3 \\ 2/3 \\ 5/3 \end{pmatrix}",
        r"\$32,\!348",
        r"10\%",
        r"\left(\frac{3}{5},\frac{8}{3}\right]",
        "18 apples",
    ],
)
def test_bare_latex_as_in_math_is_itself_and_nothing_simpler(answer: str) -> None:
    judge = verifier("math")

    assert judge(f"So the answer is $\\boxed{{{answer}}}$.", answer) == 1.0
    assert judge(f"Therefore\n#### {answer}", answer) == 1.0
    assert judge("\\boxed{12345}", answer) == 0.0


def test_number_inside_bare_latex_is_not_the_answer() -> None:
    assert verifier("math")("13", r"3\sqrt{13}") == 0.0
    assert verifier("math")("#### 3\\sqrt{13}", "13") == 0.0


def test_reference_that_could_not_be_read_once_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judge = verifier("math")
    monkeypatch.setattr(math_verify, "parse", lambda *_, **__: [])
    with pytest.raises(UnjudgedError, match="has no value that math can read: '2/14'"):
        judge("1/7", "2/14")
    monkeypatch.undo()

    assert judge("1/7", "2/14") == 1.0


def test_unknown_verifier_is_named_with_those_there_are() -> None:
    with pytest.raises(
        ValueError, match="must be one of exact, math, model, python, regex, got 'guess'"
    ):
        verifier("guess")


@pytest.mark.slow
def test_scoring_needs_no_torch() -> None:
    code = "import sys, hetrl_runtime.reward.mathematics; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert "torch" not in loaded.stdout.split()


@pytest.mark.parametrize(
    ("pattern", "response", "answer", "expected"),
    [
        (r"<think>.*</think>", "<think>so</think> 18", "18", 1.0),
        (r"<think>.*</think>", "18", "18", 0.0),
        (r"is (?P<answer>-?\d+)", "It is 17. No, it is 18", "#### 18", 1.0),
        (r"is (?P<answer>-?\d+)", "It is 18. No, it is 17", "#### 18", 0.0),
        (r"is (?P<answer>-?\d+)", "18", "#### 18", 0.0),
        (r"(?P<answer>\d+)?x", "x", "#### 18", 0.0),
        (r"(?s)<a>(?P<answer>.*)</a>", "<a>\n yes </a>", "yes", 1.0),
    ],
)
def test_regex_wants_the_form_and_in_its_group_the_answer(
    pattern: str, response: str, answer: str, expected: float
) -> None:
    data = DataSpec(prompts="", reward="regex", regex=RegexReward(pattern=pattern))

    assert judge_of(data.parts[0])(Response(text=response, reference=answer)) == expected


@pytest.mark.parametrize(
    ("num_tokens", "expected"), [(0, 0.0), (50, 0.0), (75, 1.0), (99, 1.96), (100, 2.0)]
)
def test_length_costs_more_and_more_within_the_buffer(num_tokens: int, expected: float) -> None:
    penalty = LengthPenalty(buffer_tokens=50, weight=2.0)

    assert length_penalty(num_tokens, max_tokens=100, penalty=penalty) == pytest.approx(expected)
