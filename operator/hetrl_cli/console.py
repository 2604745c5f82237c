"""Where tables go: a person's terminal, or wide and without colours where nobody watches."""

from rich.console import Console

TABLE_WIDTH = 160
"""Columns where nobody's terminal tells a width."""


def console(*, width: int = TABLE_WIDTH) -> Console:
    """Return the console of standard output, so wide where it is not a terminal."""
    found = Console()
    return found if found.is_terminal else Console(width=width, color_system=None)
