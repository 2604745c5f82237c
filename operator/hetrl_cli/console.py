"""The console that tables are printed on: wide and without colours if it is no terminal."""

from rich.console import Console

TABLE_WIDTH = 160
"""Columns where there is no terminal."""


def console(*, width: int = TABLE_WIDTH) -> Console:
    """Return the console of standard output.

    Args:
        width: columns to use where it is not a terminal.
    """
    found = Console()
    return found if found.is_terminal else Console(width=width, color_system=None)
