"""The console of tables and live displays; ``say`` prints what is neither.

Messages, names and logs come from others: a bracket in them is no markup, and a control character
does not reach the terminal. ``tests/repo`` refuses every other way to print.
"""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from hetrl_cli.say import LAYOUT
from hetrl_core.escape import escaped

TABLE_WIDTH = 160
"""Columns where there is no terminal."""


class PlainConsole(Console):
    """A console to which texts are texts: no markup, no emoji, no control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as rich does, and escape control characters of texts."""
        for each in super().render(renderable, options):
            # What moves the cursor for rich itself has a control code beside its text.
            is_plain = each.control is not None or each.text.isprintable()
            yield each if is_plain else each._replace(text=escaped(each.text, keep=LAYOUT))


def console(*, width: int = TABLE_WIDTH) -> Console:
    """Return the console of standard output: wide and without colours if it is no terminal.

    Args:
        width: columns to use where it is not a terminal.
    """
    found = PlainConsole()
    return found if found.is_terminal else PlainConsole(width=width, color_system=None)
