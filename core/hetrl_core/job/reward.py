"""The rewards of a job: how responses are scored, and with what settings."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hetrl_core.limits import above_zero, at_least

MAX_REWARDS = 8
"""Of a job; each is a series of metrics."""


class Reward(StrEnum):
    """How an answer is scored; packages may add others, under names of their own."""

    MATH = "math"
    EXACT = "exact"
    REGEX = "regex"
    PYTHON = "python"
    MODEL = "model"
    """By a reward model, which inference workers have."""


_WITHOUT_COLUMNS = (Reward.MATH, Reward.EXACT, Reward.REGEX, Reward.MODEL)


class AnswerForm(StrEnum):
    """A form in which a response may state its final answer."""

    BOXED = "Boxed"
    r"""``\boxed{42}``."""

    HASH_LINE = "HashLine"
    """A line ``#### 42``, as in GSM8K."""

    ANSWER_TAG = "AnswerTag"
    """``<answer>42</answer>``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MathReward:
    """Settings of the reward ``math``."""

    answer_forms: tuple[AnswerForm, ...] = ()
    """The only forms that count; none: these and what a sentence says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexReward:
    """What a response must contain; a group named ``answer`` must be the reference answer."""

    pattern: str

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(
                f"data.regex.pattern is not a regular expression: {error}, got {self.pattern!r}"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonReward:
    """A function of the user's own, ``(response, answer) -> float``, and what one call may take."""

    file: str
    function: str = "score"
    timeout_seconds: float = 60.0
    """By the clock, for one that waits for ever; ``cpu_seconds`` limits what it computes."""

    cpu_seconds: int = 2
    memory_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        above_zero("data.python.timeoutSeconds", self.timeout_seconds)
        at_least("data.python.cpuSeconds", self.cpu_seconds, 1)
        at_least("data.python.memoryMiB, in bytes", self.memory_bytes, 64 << 20)
        if not self.function.isidentifier():
            raise ValueError(
                f"data.python.function must be a name of Python, got {self.function!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthPenalty:
    """What long responses lose: from nothing to ``weight`` over the last tokens allowed."""

    buffer_tokens: int
    weight: float = 1.0

    def __post_init__(self) -> None:
        at_least("data.lengthPenalty.bufferTokens", self.buffer_tokens, 1)
        above_zero("data.lengthPenalty.weight", self.weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPart:
    """One of a job's rewards, which are added up by weight."""

    name: str
    weight: float = 1.0
    sources: tuple[str, ...] = ()
    """Rows that it is for, by the value of their source field; none: all."""

    reward: str = Reward.MATH
    math: MathReward | None = None
    regex: RegexReward | None = None
    python: PythonReward | None = None

    def __post_init__(self) -> None:
        field = f"data.rewards[{self.name}]"
        if not math.isfinite(self.weight):
            raise ValueError(f"{field}.weight must be a finite number, got {self.weight}")
        require_settings(
            field, self.reward, {Reward.REGEX: self.regex, Reward.PYTHON: self.python}, self.math
        )

    def is_for(self, source: str) -> bool:
        """Tell whether responses to a row of this source get this reward."""
        return not self.sources or source in self.sources

    @property
    def takes_columns(self) -> bool:
        """Whether it is a function that may ask for columns of the data."""
        return self.reward not in _WITHOUT_COLUMNS


def require_settings(
    field: str, reward: str, needed: Mapping[Reward, object], math_settings: MathReward | None
) -> None:
    """Require the settings that a reward needs, and refuse those of another.

    Raises:
        ValueError: one is missing or too many; the message names it.
    """
    for name, settings in needed.items():
        if (reward == name) is not (settings is not None):
            raise ValueError(
                f"{field}.{name} must be set if and only if {field}.reward is {name}, got {reward}"
            )
    if math_settings and reward != Reward.MATH:
        raise ValueError(f"{field}.math needs {field}.reward math, got {reward}")
