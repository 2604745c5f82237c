"""The ``math`` verifier: whether two answers mean the same number, set or expression.

Hugging Face's math-verify compares the text after a response's last ``####``, as in GSM8K, or the
whole response if it has none.
"""

import re
import threading
from functools import lru_cache
from typing import Any

import math_verify

from hetrl_runtime.data.reference_answer import MARKER, target
from hetrl_runtime.reward.magnitude import is_beyond_reason

_TIMEOUT_SECONDS = 1
_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,11}")
# A number and its unit; math-verify reads it best as it is.
_QUANTITY = re.compile(r"[-+]?\$?[\d.,/]+\s*%?[\sA-Za-z.]*")


def score(response: str, answer: str) -> float:
    """Return 1.0 where a response's final answer equals the reference, else 0.0.

    What would take numbers of thousands of digits, sums of hundreds of terms, or ten brackets
    that open at one place, is wrong unseen. In a process's main thread each judgement takes a
    few seconds at most, because math-verify stops itself by a signal; in other threads nothing
    limits it.
    """
    given, wanted = _final_answer(response), target(answer)
    if _PLAIN_INTEGER.fullmatch(given) and _PLAIN_INTEGER.fullmatch(wanted):
        # What math-verify says too, a thousand times faster; a test compares the two.
        return float(given == wanted)
    if given == wanted:
        return float(bool(wanted))
    if is_beyond_reason(given):
        return 0.0
    if MARKER in response and _is_bare_latex(wanted):
        given = _enclosed(given)
    timeout_seconds = _timeout_seconds()
    try:
        reference = _reference(wanted)
    except _UnreadError:
        return 0.0
    is_right = math_verify.verify(
        reference,
        math_verify.parse(given, parsing_timeout=timeout_seconds),
        timeout_seconds=timeout_seconds,
    )
    return float(is_right)


def _final_answer(response: str) -> str:
    _, marker, rest = response.rpartition(MARKER)
    if not marker:
        return rest.strip()
    # What stands below the line of the answer is no part of it.
    return rest.strip().partition("\n")[0].strip()


class _UnreadError(Exception):
    """A reference could not be read this time; on a busy machine it may be the next."""


@lru_cache(maxsize=4096)
def _reference(wanted: str) -> Any:
    """Return a reference as math-verify reads it. What is raised is not remembered."""
    read = math_verify.parse(_enclosed(wanted), parsing_timeout=_timeout_seconds())
    if not read:
        raise _UnreadError
    return read


def _enclosed(answer: str) -> str:
    r"""Say that an answer is mathematics, as MATH's bare LaTeX does not.

    Else math-verify would look for a number in it, and find 13 in ``3\sqrt{13}``.
    """
    return f"\\boxed{{{answer}}}" if _is_bare_latex(answer) else answer


def _is_bare_latex(answer: str) -> bool:
    is_marked = "\\boxed" in answer or "$" in answer.replace("\\$", "")
    return not is_marked and not _QUANTITY.fullmatch(answer)


def _timeout_seconds() -> int | None:
    is_main = threading.current_thread() is threading.main_thread()
    return _TIMEOUT_SECONDS if is_main else None
