"""The base of every task of a tiny model: problems, each permanently held out or not.

A problem is held out by its own digest, so that no seed, file or run can train on what another
one evaluates.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class Task(StrEnum):
    """A task that a tiny model can learn."""

    ARITHMETIC = "arithmetic"
    """Sums with a carry: ``sums``."""

    PRODUCTS = "products"
    """Products that need a calculator: ``products``."""


class Split(StrEnum):
    """The use of a problem: training or evaluation."""

    TRAIN = "train"
    HELD_OUT = "held-out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An expression of two numbers, and its value."""

    OPERATOR: ClassVar[str]
    HELD_OUT_OF_256: ClassVar[int]
    """Of so many problems, those that are for evaluation."""

    first: int
    second: int

    @property
    def expression(self) -> str:
        """What to ask a calculator."""
        return f"{self.first}{self.OPERATOR}{self.second}"

    @property
    def question(self) -> str:
        """What the model reads."""
        return f"{self.expression}="

    @property
    def answer(self) -> str:
        """What is right."""
        raise NotImplementedError

    @property
    def split(self) -> Split:
        """Which side of the fence the problem is on, always the same."""
        digest = hashlib.sha256(self.question.encode()).digest()
        return Split.HELD_OUT if digest[0] < self.HELD_OUT_OF_256 else Split.TRAIN
