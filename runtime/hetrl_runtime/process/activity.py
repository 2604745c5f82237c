"""Busy and idle time of a worker."""


class Activity:
    """The sums of busy and idle seconds.

    ``now`` is of any steady clock and passed in.
    """

    def __init__(self, now: float) -> None:
        self.busy_seconds = 0.0
        self.idle_seconds = 0.0
        self._is_busy = False
        self._since = now

    def observe(self, *, is_busy: bool, now: float) -> None:
        """Add the time until now to the former state, and set the next state."""
        elapsed_seconds = max(0.0, now - self._since)
        if self._is_busy:
            self.busy_seconds += elapsed_seconds
        else:
            self.idle_seconds += elapsed_seconds
        self._is_busy = is_busy
        self._since = now
