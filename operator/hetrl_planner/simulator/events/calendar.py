"""Simulated time: the queue of events, and alarms that can be moved.

The event loop of the simulator. It is our own because a library's loop costs half as much as a
whole event of the model (docs/decisions/0045).
"""

from collections.abc import Callable
from heapq import heappop, heappush

Action = Callable[[], None]


class Alarm:
    """One pending action that can be moved or called off."""

    __slots__ = ("action", "pending")

    def __init__(self, action: Action) -> None:
        self.action = action
        self.pending = 0
        """Number of the calendar's entry that counts; 0 while none does."""

    def cancel(self) -> None:
        """Cancel the alarm."""
        self.pending = 0


class Calendar:
    """The one clock of a simulation. Equal moments keep the order in which they were set."""

    __slots__ = ("_line", "_most_events", "_number", "events", "now")

    def __init__(self) -> None:
        self._line: list[tuple[float, int, Action, Alarm | None]] = []
        self._number = 0
        self._most_events = 0
        self.now = 0.0
        """Seconds since the start."""
        self.events = 0
        """Events that have happened, without alarms that were moved before they rang."""

    def after(self, seconds: float, action: Action) -> None:
        """Schedule an action in so many seconds."""
        self._number = number = self._number + 1
        heappush(self._line, (self.now + seconds, number, action, None))

    def set(self, alarm: Alarm, seconds: float) -> None:
        """Move an alarm to ring in so many seconds."""
        # The old entry stays in the heap: finding it would cost more.
        self._number = alarm.pending = number = self._number + 1
        heappush(self._line, (self.now + seconds, number, alarm.action, alarm))

    @property
    def has_more(self) -> bool:
        """Whether any event is pending."""
        return bool(self._line)

    def allow(self, events: int) -> None:
        """Limit the run to so many more events, replacing any earlier limit."""
        self._most_events = self.events + events

    def play(self) -> None:
        """Run events until none is pending or the limit is reached."""
        line = self._line
        while line and self.events < self._most_events:
            at, number, action, alarm = heappop(line)
            if alarm is not None:
                if alarm.pending != number:
                    continue
                alarm.pending = 0
            self.now = at
            self.events += 1
            action()
