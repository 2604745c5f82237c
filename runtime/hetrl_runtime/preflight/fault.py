"""A fault: a reason why a job cannot run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A reason of a condition, with its message."""

    reason: str
    message: str
