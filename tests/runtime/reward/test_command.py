"""`hetrl reward`: every reward that a job may name, scored as a rollout worker scores it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hetrl_runtime.reward.command import command

EXAMPLE = Path(__file__).parents[3] / "examples/several-rewards.yaml"
RIGHT = {"response": "#### 18", "answer": "#### 18"}
WRONG = {"response": "2", "answer": "3"}


def ask(*options: str, lines: list[Any]) -> Result:
    text = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
    return CliRunner().invoke(command, options, input=text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="math"),
        pytest.param(("--answer-form", "HashLine"), id="math in one form"),
        pytest.param(("--verifier", "exact"), id="exact"),
        pytest.param(("--verifier", "regex", "--pattern", "#### [0-9]+"), id="regex"),
    ],
)
def test_lines_are_each_scored(options: tuple[str, ...]) -> None:
    result = ask(*options, lines=[RIGHT, "", WRONG])

    assert (result.exit_code, result.output) == (0, "1\n0\n")


@pytest.mark.slow
def test_rewards_of_a_job_are_added_up_and_shown() -> None:
    responses = (
        ("openai/gsm8k", "<think>9+9</think> \\boxed{18}", "18"),
        ("openai/gsm8k", "\\boxed{17}", "18"),
        ("openai/gsm8k", "<think>9+9</think> It is 18.", "18"),
        ("words", "<think>?</think> whale", "whale"),
    )
    lines = [
        {"response": response, "answer": answer, "data_source": source}
        for source, response, answer in responses
    ]

    claim = ("--claim", f"mixed={EXAMPLE.parent}")
    result = ask("-f", str(EXAMPLE), *claim, lines=[*lines, {"response": "", "answer": "1"}])

    *scores, unjudged = result.output.splitlines()
    assert scores == [
        "1.2 correct=1 form=1",
        "0 correct=0 form=0",
        "0.2 correct=0 form=1",
        "1.2 words=1 form=1",
    ]
    assert unjudged == "0 form=0"


@pytest.mark.slow
def test_users_code_is_called_by_the_named_function(tmp_path: Path) -> None:
    file = tmp_path / "rewards.py"
    file.write_text("def halves(response, answer):\n    return len(response) / 2\n")

    result = ask("--verifier", "python", "--python", f"{file}:halves", lines=[RIGHT, WRONG])

    assert (result.exit_code, result.output) == (0, "3.5\n0.5\n")


@pytest.mark.slow
def test_unjudged_response_names_its_reason_and_line() -> None:
    result = ask(lines=[RIGHT, {"response": "3", "answer": "#### "}])

    assert result.exit_code == 0
    judged, unjudged = result.output.splitlines()
    assert judged == "1"
    assert unjudged.startswith("unjudged: line 2: ReferenceUnreadable: the reference answer has")


@pytest.mark.slow
def test_code_gets_prompt_and_columns_by_name(tmp_path: Path) -> None:
    file = tmp_path / "rewards.py"
    file.write_text("def score(response, answer, prompt, level):\n    return len(prompt) + level\n")

    line = {**RIGHT, "prompt": "2+2?", "level": 3}
    result = ask("--verifier", "python", "--python", str(file), lines=[line])

    assert (result.exit_code, result.output) == (0, "7\n")


@pytest.mark.slow
def test_code_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "missing.py"

    result = ask("--verifier", "python", "--python", str(file), lines=[RIGHT])

    assert result.exit_code == 1
    assert str(file) in result.output


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        pytest.param(("--pattern", "x"), "--pattern goes with reward regex", id="a pattern more"),
        pytest.param(("--verifier", "regex"), "--pattern goes with reward regex", id="no pattern"),
        pytest.param(("--verifier", "python"), "--python goes with reward python", id="no code"),
        pytest.param(
            ("--verifier", "exact", "--answer-form", "boxed"),
            "--answer-form goes with reward math",
            id="a form more",
        ),
        pytest.param(
            ("-f", str(EXAMPLE), "--verifier", "math"), "leave out the other options", id="a job"
        ),
        pytest.param(
            ("--verifier", "regex", "--pattern", "("), "is not a regular expression", id="broken"
        ),
        pytest.param(
            ("--verifier", "python", "--python", "x.py:a b"), "must be a name of Python", id="name"
        ),
        pytest.param(
            ("--verifier", "guess"),
            "one of exact, math, model, python, regex, got 'guess'",
            id="unknown",
        ),
    ],
)
def test_options_that_cannot_be_are_refused_with_the_reason(
    options: tuple[str, ...], complaint: str
) -> None:
    result = ask(*options, lines=[RIGHT])

    assert result.exit_code != 0
    assert complaint in " ".join(result.output.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        pytest.param("{", "line 2: not JSON", id="broken"),
        pytest.param([1], 'line 2: must be {"response": ..., "answer": ...}', id="a list"),
        pytest.param(
            {"response": "1"}, 'line 2: must be {"response": ..., "answer": ...}', id="no answer"
        ),
        pytest.param(
            {"response": 1, "answer": "1"},
            "line 2: response and answer must be text",
            id="a number",
        ),
    ],
)
def test_line_that_is_wrong_is_named(line: Any, complaint: str) -> None:
    result = ask("--verifier", "exact", lines=[RIGHT, line])

    assert result.exit_code == 1
    assert complaint in result.output
