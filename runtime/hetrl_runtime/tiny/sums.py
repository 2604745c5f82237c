"""The task: a three-digit number plus a digit from four to nine, as ``347+8=``.

Small enough to be learned on a CPU in a minute, and hard in exactly one place: the carry,
which two problems of three have.
"""

from dataclasses import dataclass
from typing import ClassVar

from hetrl_runtime.tiny.task import Problem, Split


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(Problem):
    """One problem and its answers."""

    OPERATOR: ClassVar[str] = "+"
    HELD_OUT_OF_256: ClassVar[int] = 96
    """Over two thousand to evaluate on, over three thousand to train on."""

    @property
    def answer(self) -> str:
        """What is right."""
        return str(self.first + self.second)

    @property
    def answer_without_carry(self) -> str:
        """What a careless pupil writes: the last digit alone changes."""
        return f"{self.first // 10}{(self.first + self.second) % 10}"


def sums(split: Split) -> tuple[Sum, ...]:
    """Return every problem of a split, in order of its numbers."""
    return tuple(
        problem
        for first in range(100, 1000)
        for second in range(4, 10)
        if (problem := Sum(first=first, second=second)).split is split
    )
