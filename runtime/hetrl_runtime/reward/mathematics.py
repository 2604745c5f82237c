"""The ``math`` verifier: whether two answers mean the same number, set or expression.

``final_answer`` says where the answer stands, ``quantity`` gives numbers one form, and Hugging
Face's math-verify compares what is left.
"""

import logging
import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import math_verify

from hetrl_core.job.reward import AnswerForm
from hetrl_runtime.reward.answers.final_answer import (
    FinalAnswer,
    Place,
    choice,
    final_answer,
    solution_answer,
)
from hetrl_runtime.reward.answers.magnitude import is_beyond_reason
from hetrl_runtime.reward.answers.quantity import is_quantity, num_values, plain
from hetrl_runtime.reward.verdict import UnjudgedError, UnjudgedReason

# It warns that nothing limits its time; ``scoring`` limits the processor time of its process.
logging.getLogger("math_verify").setLevel(logging.CRITICAL)

_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,11}")
_NO_VALUE = re.compile(r"[-?.…*_\s\[\]()<>\"']*|n/?a|null|nan|unknown|no answer", re.IGNORECASE)
_LATEX = re.compile(r"[\\$^_{}]")
_WORD = re.compile(r"[^\W\d_]{2,}")
_MOST_WORDS = 12
_FEWEST_WORDS_OF_A_SENTENCE = 3
_CJK = re.compile(r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]+")


def score(response: str, answer: str, *, answer_forms: Collection[AnswerForm] = ()) -> float:
    """Return 1.0 where a response's final answer equals the reference, else 0.0.

    With ``answer_forms`` an answer in another form is none, and so is a sentence that says it.

    What would take numbers of thousands of digits, sums of hundreds of terms, or ten brackets
    that open at one place, is wrong unseen. Nothing here limits the time.

    Raises:
        UnjudgedError: the reference has no value that can be read.
    """
    wanted = reference_value(answer)
    given = final_answer(
        response, reference=wanted, num_values=num_values(wanted), forms=answer_forms
    )
    text = given.text if given.place is Place.NOWHERE else plain(given.text)
    if _PLAIN_INTEGER.fullmatch(text) and _PLAIN_INTEGER.fullmatch(wanted):
        # What math-verify says too, a thousand times faster; a test compares the two.
        return float(text == wanted)
    if text == wanted:
        return 1.0
    if choice(wanted) and choice(text):
        return float(choice(wanted) == choice(text))
    if not text or is_beyond_reason(text):
        return 0.0
    is_right = math_verify.verify(
        _read(wanted),
        math_verify.parse(_as_mathematics(given, text, wanted), parsing_timeout=None),
        timeout_seconds=None,
    )
    return float(is_right)


def reference_value(answer: str) -> str:
    """Return the value of a reference answer, in the form that ``quantity.plain`` gives.

    Raises:
        UnjudgedError: it has no value: it is empty, or a text that says none.
    """
    found = solution_answer(answer)
    value = plain(found.text)
    if _NO_VALUE.fullmatch(value) or (found.place is Place.NOWHERE and _is_prose(found.text)):
        raise _unreadable(answer)
    return value


def _is_prose(text: str) -> bool:
    """Tell whether a text is sentences without mathematics, and not a name or a short phrase."""
    if _LATEX.search(text) or is_quantity(text):
        return False
    num_words = len(_WORD.findall(text))
    is_sentence = text.endswith((".", "!")) and num_words >= _FEWEST_WORDS_OF_A_SENTENCE
    return is_sentence or "\n" in text or num_words > _MOST_WORDS


def _as_mathematics(given: FinalAnswer, text: str, wanted: str) -> str:
    if given.place is Place.NOWHERE:
        # math-verify finds numbers only beside white space.
        return _CJK.sub(" ", text)
    return _enclosed(text) if given.place is Place.BOX or _is_bare_latex(wanted) else text


@lru_cache(maxsize=4096)
def _read(wanted: str) -> Any:
    """Return a reference as math-verify reads it. What is raised is not remembered."""
    text = _enclosed(wanted) if _is_bare_latex(wanted) else wanted
    read = math_verify.parse(text, parsing_timeout=None)
    if not read:
        raise _unreadable(wanted)
    return read


def _unreadable(answer: str) -> UnjudgedError:
    return UnjudgedError(
        UnjudgedReason.REFERENCE_UNREADABLE,
        f"the reference answer has no value that math can read: {answer!r:.80}",
    )


def _enclosed(answer: str) -> str:
    r"""Say that an answer is mathematics, as MATH's bare LaTeX does not.

    Else math-verify would look for a number in it, and find 13 in ``3\sqrt{13}``.
    """
    return answer if "\\boxed" in answer else f"\\boxed{{{answer}}}"


def _is_bare_latex(answer: str) -> bool:
    is_marked = "\\boxed" in answer or "$" in answer.replace("\\$", "")
    return not is_marked and not is_quantity(answer)
