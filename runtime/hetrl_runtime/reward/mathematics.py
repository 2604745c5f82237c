"""The ``math`` verifier: whether two answers mean the same number, set or expression.

The judgement is Hugging Face's math-verify. What is judged is what a response says after its
last ``####``, as in GSM8K, or all of it where it has none.
"""

import re
import threading
from functools import lru_cache
from typing import Any

import math_verify

from hetrl_runtime.data.target import MARKER, target

_TIMEOUT_SECONDS = 1
_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,11}")


def score(response: str, answer: str) -> float:
    """Return 1.0 where a response's final answer equals the reference, else 0.0.

    In a process's main thread each judgement takes a few seconds at most, because math-verify
    stops itself by a signal; in other threads nothing limits an expression such as a tower of
    powers.
    """
    given, wanted = _final_answer(response), target(answer)
    if _PLAIN_INTEGER.fullmatch(given) and _PLAIN_INTEGER.fullmatch(wanted):
        # What math-verify says too, a thousand times faster; a test compares the two.
        return float(given == wanted)
    timeout_seconds = _timeout_seconds()
    is_right = math_verify.verify(
        _reference(wanted),
        math_verify.parse(given, parsing_timeout=timeout_seconds),
        timeout_seconds=timeout_seconds,
    )
    return float(is_right)


def _final_answer(response: str) -> str:
    _, marker, rest = response.rpartition(MARKER)
    # What stands below the line of the answer is no part of it.
    return (rest.strip().partition("\n")[0] if marker else rest).strip()


@lru_cache(maxsize=4096)
def _reference(wanted: str) -> Any:
    return math_verify.parse(wanted, parsing_timeout=_timeout_seconds())


def _timeout_seconds() -> int | None:
    is_main = threading.current_thread() is threading.main_thread()
    return _TIMEOUT_SECONDS if is_main else None
