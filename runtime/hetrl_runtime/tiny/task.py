"""The base of every task of a tiny model: problems, each permanently held out or not.

A problem is held out by its own digest, so that no seed, file or run can train on what another
one evaluates.
"""

import hashlib
from enum import StrEnum
from typing import Protocol


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


class Problem(Protocol):
    """A question, and its answer."""

    @property
    def question(self) -> str:
        """What the model reads."""

    @property
    def answer(self) -> str:
        """What is right."""


def split_of(question: str, *, held_out_of_256: int) -> Split:
    """Return the split of a problem: training or held out, always the same."""
    digest = hashlib.sha256(question.encode()).digest()
    return Split.HELD_OUT if digest[0] < held_out_of_256 else Split.TRAIN
