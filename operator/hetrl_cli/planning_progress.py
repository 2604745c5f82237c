"""A progress indicator with a deadline for a search for a plan."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from hetrl_cli.console import PlainConsole

_FRAMES_PER_SECOND = 4


@contextmanager
def planning_progress(seconds: float) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether the deadline has passed.

    On a terminal, standard error shows a moving bar until the context ends. A thread refreshes
    the bar: a search calls the function thousands of times a second.

    Args:
        seconds: time until the deadline.
    """
    ends_at = time.monotonic() + seconds
    console = PlainConsole(stderr=True)
    bar = Progress(
        TextColumn("planning"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn(f"of at most {seconds:g} s"),
        console=console,
        transient=True,
        refresh_per_second=_FRAMES_PER_SECOND,
        redirect_stdout=False,
        disable=not console.is_terminal,
    )
    with bar:
        bar.add_task("", total=None)
        yield lambda: time.monotonic() >= ends_at
