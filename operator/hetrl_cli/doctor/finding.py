"""A finding of `hetrl doctor`: a cause with its remedy."""

from dataclasses import dataclass
from enum import StrEnum


class Weight(StrEnum):
    """How much a finding matters."""

    PROBLEM = "problem"
    """Jobs do not run, or not for long."""

    NOTE = "note"
    """Worth knowing; jobs run nevertheless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause with its remedy."""

    about: str
    """The subject, in a word or two."""

    said: str
    """What is wrong, with names and figures."""

    remedy: str
    """What to do about it."""

    weight: Weight = Weight.PROBLEM
