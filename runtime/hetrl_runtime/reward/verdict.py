"""A verdict on one response: its reward, or the reason why there is none.

``read_reward`` turns what a reward function returned into a verdict. A reward of 0 says that a
response is bad; ``Unjudged`` says that nothing is known about it, so nothing may be learned of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from numbers import Real
from typing import Any

from hetrl_core.escape import one_line
from hetrl_core.units import FLOAT32_MAX

SCORE_KEY = "score"
"""The key of a dict that has the reward; the other keys are parts of it."""


class UnjudgedReason(StrEnum):
    """The kinds of reasons why a response has no reward; a label of a metric, so there are few."""

    TIME_LIMIT = "TimeLimit"
    PROCESS_LOST = "ProcessLost"
    REFERENCE_UNREADABLE = "ReferenceUnreadable"
    FUNCTION_RAISED = "FunctionRaised"
    FUNCTION_DECLINED = "FunctionDeclined"
    """It returned None, which asks to leave the response out."""

    WRONG_SIGNATURE = "WrongSignature"
    WRONG_TYPE = "WrongType"
    NOT_FINITE = "NotFinite"
    """Not a number, infinite, or beyond what float32 holds."""

    SOURCE_UNKNOWN = "SourceUnknown"
    """None of the job's rewards is for the source of its row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """The absence of a reward, with its reason."""

    reason: UnjudgedReason
    detail: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


Verdict = float | Unjudged


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The reward of a response, and what it is made of where a job names several rewards."""

    reward: float
    parts: Mapping[str, float] = field(default_factory=dict)
    """Name to reward, before it is multiplied by its weight."""


class UnjudgedError(Exception):
    """A verifier cannot judge a response; ``scoring`` makes an ``Unjudged`` of it."""

    def __init__(self, reason: UnjudgedReason, detail: str) -> None:
        super().__init__(reason, detail)
        self.unjudged = Unjudged(reason=reason, detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response to judge, with all that is known of its prompt."""

    text: str
    reference: str
    """The reference answer, as the data have it."""

    prompt: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """The other fields or columns of the prompt's record, by name."""


def read_reward(value: object) -> Verdict:
    """Return the verdict in what a reward function returned.

    Numbers of Python and numpy, ``Decimal``, ``Fraction`` and booleans are rewards as they are, and
    so is a tensor of one number. Of a dict ``score`` is.

    >>> read_reward({"score": True, "format": 0.5})
    1.0
    """
    if isinstance(value, Mapping):
        if SCORE_KEY not in value:
            keys = ", ".join(map(str, value)) or "none"
            return _wrong_type(f"a dict without {SCORE_KEY!r} (its keys: {keys})", "add that key")
        value = value[SCORE_KEY]
    if value is None:
        return Unjudged(
            reason=UnjudgedReason.FUNCTION_DECLINED, detail="the reward function returned None"
        )
    number = _scalar(value)
    if not isinstance(number, Real | Decimal):
        return _wrong_type(f"{type(value).__name__} {value!r:.80}", _remedy(value))
    return _bounded(number, shown=f"{value!r:.40}")


def _scalar(value: object) -> object:
    """Return the number in a scalar of numpy or in a tensor without dimensions."""
    item = getattr(value, "item", None)
    return item() if callable(item) and not getattr(value, "shape", None) else value


def _bounded(number: Real | Decimal, *, shown: str) -> Verdict:
    try:
        reward = float(number)
    except (OverflowError, ValueError):
        reward = float("nan")
    if abs(reward) <= FLOAT32_MAX:  # Not-a-number fails this comparison too.
        return reward
    return Unjudged(
        reason=UnjudgedReason.NOT_FINITE,
        detail=f"the reward function returned {one_line(shown)}; a reward must be a finite number "
        f"that float32 holds, at most {FLOAT32_MAX:.2g}",
    )


def _wrong_type(returned: str, remedy: str) -> Unjudged:
    return Unjudged(
        reason=UnjudgedReason.WRONG_TYPE,
        detail=one_line(f"the reward function returned {returned}; {remedy}"),
    )


def _remedy(value: object) -> str:
    if isinstance(value, list | tuple):
        return "return one number, not a sequence; only a function of `completions` returns a list"
    if isinstance(value, str):
        return "return a number: float(...) makes one of text"
    return f"return a number, None (leave the response out), or a dict with {SCORE_KEY!r}"
