"""What those who wait for the coordinator wait for. What is worth a notifier, ``service`` knows."""

import asyncio


class Notifier:
    """Something that happens again and again; whoever waits waits for the next time."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def next(self) -> asyncio.Event:
        """Return what is set when it happens next."""
        return self._next

    def notify(self) -> None:
        """Let it happen."""
        self._next.set()
        self._next = asyncio.Event()
