"""The stop signal of a trainer: at once while waiting, after the step while training."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequested(Exception):  # noqa: N818  # the name says what to do
    """A request to end this process."""


class StopSignal:
    """A record of SIGTERM and SIGINT; for the main thread, which Python delivers them to."""

    def __init__(self) -> None:
        self.is_set = False
        self._grace_seconds: float | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)
        signal.signal(signal.SIGALRM, self._interrupt)

    @contextmanager
    def interrupts(self, *, after_seconds: float = 0.0) -> Iterator[None]:
        """Let a stop interrupt the block, by raising ``StopRequested``.

        At once, or ``after_seconds`` for work that is worth finishing but may never end, such as a
        call to a peer that was stopped as well.
        """
        self._grace_seconds = after_seconds
        try:
            if self.is_set:
                self._start_grace_period()
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._grace_seconds = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.is_set = True
        self._start_grace_period()

    def _start_grace_period(self) -> None:
        if self._grace_seconds is None:
            return
        if self._grace_seconds == 0:
            raise StopRequested
        signal.setitimer(signal.ITIMER_REAL, self._grace_seconds)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._grace_seconds is not None:
            raise StopRequested
