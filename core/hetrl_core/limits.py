"""Checks of single fields. An error names the field as users write it, the value and the limit."""


def at_least(name: str, value: float | None, limit: float) -> None:
    """Refuse a value below a limit; an unset one passes.

    Raises:
        ValueError: it is below, or not a number.
    """
    if value is not None and not value >= limit:
        raise ValueError(f"{name} must be >= {limit}, got {value}")


def at_most(name: str, value: float | None, limit: float) -> None:
    """Refuse a value above a limit; an unset one passes.

    Raises:
        ValueError: it is above, or not a number.
    """
    if value is not None and not value <= limit:
        raise ValueError(f"{name} must be <= {limit}, got {value}")


def above_zero(name: str, value: float | None) -> None:
    """Refuse a value that is not above zero; an unset one passes.

    Raises:
        ValueError: it is zero, below, or not a number.
    """
    if value is not None and not value > 0:
        raise ValueError(f"{name} must be > 0, got {value}")
