"""Checks of single fields. An error names the field as users write it, the value and the limit."""


def at_least(name: str, value: float, limit: int) -> None:
    """Refuse a value below a limit.

    Raises:
        ValueError: it is below, or no number.
    """
    if not value >= limit:
        raise ValueError(f"{name} must be >= {limit}, got {value}")


def at_most(name: str, value: float, limit: int) -> None:
    """Refuse a value above a limit.

    Raises:
        ValueError: it is above, or no number.
    """
    if not value <= limit:
        raise ValueError(f"{name} must be <= {limit}, got {value}")


def above_zero(name: str, value: float) -> None:
    """Refuse a value that is not above zero.

    Raises:
        ValueError: it is zero, below, or no number.
    """
    if not value > 0:
        raise ValueError(f"{name} must be > 0, got {value}")
