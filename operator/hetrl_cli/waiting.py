"""A wait for a plan: its deadline, and a sign of life for whoever watches."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

_FRAMES_PER_SECOND = 4


@contextmanager
def planning(seconds: float) -> Iterator[Callable[[], bool]]:
    """Yield what tells a search to stop after so many seconds.

    On a terminal a bar moves on standard error meanwhile, and is gone at the end; a search asks
    thousands of times a second, so the bar does not wait to be told.
    """
    ends_at = time.monotonic() + seconds
    watched = Console(stderr=True)
    bar = Progress(
        TextColumn("planning"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn(f"of at most {seconds:g} s"),
        console=watched,
        transient=True,
        refresh_per_second=_FRAMES_PER_SECOND,
        redirect_stdout=False,
        disable=not watched.is_terminal,
    )
    with bar:
        bar.add_task("", total=None)
        yield lambda: time.monotonic() >= ends_at
