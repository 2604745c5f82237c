"""The task that needs a tool: two three-digit numbers multiplied, as ``347*829=``.

No model this small computes that, and there are too many to know by heart; copying both numbers
into a call of the calculator, and its result out again, is within reach.
"""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from hetrl_runtime.tiny.task import Problem, Split

_STEP = 7
"""Between first factors: a seventh of all problems is more than any run needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product(Problem):
    """One problem and its answer."""

    OPERATOR: ClassVar[str] = "*"
    HELD_OUT_OF_256: ClassVar[int] = 16

    @property
    def answer(self) -> str:
        """What is right."""
        return str(self.first * self.second)


@cache
def products(split: Split) -> tuple[Product, ...]:
    """Return every problem of a split, in order of its numbers."""
    return tuple(
        problem
        for first in range(100, 1000, _STEP)
        for second in range(100, 1000)
        if (problem := Product(first=first, second=second)).split is split
    )
