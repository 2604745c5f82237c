"""Screens that show a run: a live panel on a terminal, plain lines in a log or a pipe."""

import math
import time
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live

from hetrl_cli.run.display.panel import Moment, line, view

_SECONDS_BETWEEN_STEPS = 5.0
_SECONDS_BETWEEN_LINES = 30.0
"""Where no step is done; a log of an hour's start need not be long."""


class Screen(Protocol):
    """Shows moments of a run for as long as it is entered."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def show(self, moment: Moment) -> None:
        """Show a moment of the run."""


class LiveScreen:
    """Redraws one panel in place and leaves its last state on the terminal."""

    def __init__(self, console: Console) -> None:
        # Drawn when there is news: a refreshing thread would draw between two halves of it.
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, moment: Moment) -> None:
        """Redraw the panel."""
        self._live.update(view(moment), refresh=True)


class PlainScreen:
    """Prints a line every few seconds while steps are done, and every event when it happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._printed_seconds = -math.inf
        self._printed_step = 0
        self._num_events = 0
        self._notices: tuple[str, ...] = ()
        self._unprinted: tuple[str, ...] = ()
        self._noticed_seconds = -math.inf
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._last:
            self._print(self._last)
        self._print_notices()

    def show(self, moment: Moment) -> None:
        """Print what is new."""
        for event in moment.events[self._num_events :]:
            self._print(event)
        self._num_events = len(moment.events)
        self._unprinted = moment.progress.notices if moment.progress else ()
        if time.monotonic() - self._noticed_seconds >= _SECONDS_BETWEEN_LINES:
            self._print_notices()
        self._last = line(moment)
        step = moment.progress.step if moment.progress else 0
        has_moved = step != self._printed_step
        waited = time.monotonic() - self._printed_seconds
        if waited >= (_SECONDS_BETWEEN_STEPS if has_moved else _SECONDS_BETWEEN_LINES):
            self._printed_seconds, self._printed_step = time.monotonic(), step
            self._print(self._last)
            self._last = ""

    def _print_notices(self) -> None:
        """Print notices that are new; counts in them may grow with every prompt."""
        for each in self._unprinted:
            if each not in self._notices:
                self._print(each)
                self._noticed_seconds = time.monotonic()
        self._notices = self._unprinted

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)
