"""Forms of reward functions: HetRL's, verl's and TRL's."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hetrl_runtime.reward.signatures import SignatureError, call_of
from hetrl_runtime.reward.verdict import Response, Unjudged, UnjudgedReason
from hetrl_runtime.reward.verifiers import judge_by

RESPONSE = Response(
    text="7",
    reference="#### 7",
    prompt="3+4?",
    columns={"question": "3+4?", "answer": "#### 7", "level": 2, "data_source": "gsm8k"},
)


class Scorer:
    def __call__(self, response: str, answer: str) -> float:
        return float(response in answer)


def own(response: str, answer: str) -> Any:
    return response, answer


def other_names(text: str, expected: str) -> Any:
    return text, expected


def by_name(response: str, answer: str, prompt: str, *, level: int, reference: str) -> Any:
    return response, answer, prompt, level, reference


def all_columns(response: str, ground_truth: str, **columns: Any) -> Any:
    return response, ground_truth, columns["level"], columns["question"]


def with_defaults(response: str, answer: str, strict: bool = True, level: int = 0) -> Any:
    return response, answer, strict, level


def swapped(answer: str, reference: str) -> Any:
    return answer, reference


def any_arguments(*arguments: str) -> Any:
    return arguments


def verl(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None) -> Any:
    return data_source, solution_str, ground_truth, extra_info["level"]


def verl_before(solution_str: str, ground_truth: str, method: str = "strict") -> Any:
    return solution_str, ground_truth, method


def verl_with_others(solution_str: str, ground_truth: str, **others: Any) -> Any:
    return solution_str, ground_truth, others["data_source"]


def trl(completions: list[str], **columns: Any) -> list[Any]:
    return [(completions, columns["answer"], columns["prompts"], columns["level"])]


def trl_by_name(prompts: list[str], completions: list[str], answer: list[str]) -> list[Any]:
    return [(prompts, completions, answer)]


def trl_array(completions: list[str], **_: Any) -> Any:
    return np.ones(len(completions))


@pytest.mark.parametrize(
    ("function", "got"),
    [
        (own, ("7", "#### 7")),
        (other_names, ("7", "#### 7")),
        (swapped, ("7", "#### 7")),
        (by_name, ("7", "#### 7", "3+4?", 2, "#### 7")),
        (all_columns, ("7", "#### 7", 2, "3+4?")),
        (with_defaults, ("7", "#### 7", True, 2)),
        (any_arguments, ("7", "#### 7")),
        (functools.partial(with_defaults, strict=False), ("7", "#### 7", False, 2)),
        (Scorer(), 1.0),
        (lambda response, _: response, "7"),
        (verl, ("gsm8k", "7", "#### 7", 2)),
        (verl_before, ("7", "#### 7", "strict")),
        (verl_with_others, ("7", "#### 7", "gsm8k")),
        (trl, (["7"], ["#### 7"], ["3+4?"], [2])),
        (trl_by_name, (["3+4?"], ["7"], ["#### 7"])),
        (trl_array, 1.0),
    ],
)
def test_function_gets_its_arguments(function: Callable[..., Any], got: object) -> None:
    assert call_of(function)(RESPONSE) == got


async def coroutine(response: str, answer: str) -> float:
    return float(response == answer)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: 1.0, "takes nothing; a reward function takes (response, answer), "),
        (lambda response: response, "takes response; a reward function takes"),
        (coroutine, "coroutine is a coroutine function: define it without `async`"),
    ],
)
def test_function_of_another_form_is_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(SignatureError) as error:
        call_of(function)
    assert message in str(error.value)


def needs_tokenizer(response: str, answer: str, tokenizer: Any) -> float:
    return float(tokenizer(response) == answer)


def trl_of_two(completions: list[str], **_: Any) -> list[float]:
    return [1.0] * (len(completions) + 1)


def trl_number(completions: list[str], **_: Any) -> float:
    return float(len(completions))


def trl_none(completions: list[str], **_: Any) -> list[None]:
    return [None for _ in completions]


def misses_a_key(response: str, answer: str) -> float:
    return {response: 1.0}[answer + "?"]


@pytest.mark.parametrize(
    ("function", "reason", "detail"),
    [
        (needs_tokenizer, UnjudgedReason.WRONG_SIGNATURE, "needs 'tokenizer', which is no column"),
        (needs_tokenizer, UnjudgedReason.WRONG_SIGNATURE, "level"),
        (trl_of_two, UnjudgedReason.WRONG_SIGNATURE, "with one reward for each, here 1"),
        (trl_number, UnjudgedReason.WRONG_SIGNATURE, "it returned 1.0"),
        (misses_a_key, UnjudgedReason.FUNCTION_RAISED, "KeyError: '#### 7?'"),
        (lambda _response, _answer: None, UnjudgedReason.FUNCTION_DECLINED, "returned None"),
        (trl_none, UnjudgedReason.FUNCTION_DECLINED, "returned None"),
    ],
)
def test_call_that_fails_is_unjudged(
    function: Callable[..., Any], reason: UnjudgedReason, detail: str
) -> None:
    verdict = judge_by(function)(RESPONSE)

    assert isinstance(verdict, Unjudged)
    assert verdict.reason is reason
    assert detail in verdict.detail
