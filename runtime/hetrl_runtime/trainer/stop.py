"""Stopping when asked: at once while waiting, after the step while training."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequested(Exception):  # noqa: N818  # the name says what to do
    """Someone wants this process to end."""


class StopSignal:
    """Remembers SIGTERM and SIGINT; for the main thread, which Python delivers them to."""

    def __init__(self) -> None:
        self.is_set = False
        self._is_waiting = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    @contextmanager
    def interrupts(self) -> Iterator[None]:
        """Let a stop interrupt what happens inside, by raising ``StopRequested``."""
        self._is_waiting = True
        try:
            if self.is_set:
                raise StopRequested
            yield
        finally:
            self._is_waiting = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.is_set = True
        if self._is_waiting:
            raise StopRequested
