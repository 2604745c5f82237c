"""A condition that waiting requests of one event loop are notified of."""

import asyncio


class Notifier:
    """An event that recurs; a waiter waits for the next occurrence."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def next(self) -> asyncio.Event:
        """Return the event that the next ``notify`` sets."""
        return self._next

    def notify(self) -> None:
        """Wake everyone who waits for the next occurrence."""
        self._next.set()
        self._next = asyncio.Event()
