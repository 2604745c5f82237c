"""The style that all tables of the command line share."""

from collections.abc import Iterable

from rich.table import Table


def titled(title: str, *texts: str, figures: Iterable[str] = ()) -> Table:
    """Return a table with columns of text, and after them columns of figures."""
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    for name in texts:
        table.add_column(name, overflow="fold")
    for name in figures:
        table.add_column(name, justify="right")
    return table


def pairs(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names with their values, without a header."""
    table = Table(title=title, title_justify="left", box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table
