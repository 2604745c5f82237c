"""Checks of numbers, whose one-line errors name field, limit and value.

Not-a-number passes no comparison, so each check is written to fail on it.
"""

from math import inf


def at_least(name: str, value: float, limit: float) -> None:
    """Refuse a value below its limit, and one that is not finite."""
    if not limit <= value < inf:
        raise ValueError(f"{name} must be >= {limit} and finite, got {value}")


def above(name: str, value: float, limit: float) -> None:
    """Refuse a value that is not above its limit, and one that is not finite."""
    if not limit < value < inf:
        raise ValueError(f"{name} must be > {limit} and finite, got {value}")


def share(name: str, value: float) -> None:
    """Refuse a value that is not a share: 0 to below 1."""
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be in [0, 1), got {value}")


def multiple(name: str, value: int, *, of: str, unit: int) -> None:
    """Refuse a count that is not a whole number of units."""
    if value % unit:
        raise ValueError(f"{name} must be a multiple of {of} ({unit}), got {value}")
