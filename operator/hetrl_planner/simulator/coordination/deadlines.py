"""Expiry of leases that are not renewed, in the order in which they were granted.

``Leases`` handles expired leases.
"""

from collections import deque
from collections.abc import Callable, Container
from itertools import takewhile

from hetrl_planner.simulator.events.calendar import Alarm, Calendar
from hetrl_planner.simulator.events.trajectory import Trajectory


class Deadlines:
    """Deadlines of equally long leases, so that the oldest ends first."""

    def __init__(
        self,
        calendar: Calendar,
        *,
        lease_seconds: float,
        leased: Container[Trajectory],
        expire: Callable[[list[Trajectory]], None],
    ) -> None:
        """Watch the leases in ``leased``; all overdue ones expire at once."""
        self._calendar = calendar
        self._lease_seconds = lease_seconds
        self._leased = leased
        self._expire = expire
        self._line: deque[tuple[float, Trajectory]] = deque()
        self._alarm = Alarm(self._expire_overdue)

    def watch(self, trajectory: Trajectory) -> None:
        """Record a lease that begins."""
        self._forget_ended()
        if not self._line:
            self._calendar.set(self._alarm, self._lease_seconds)
        self._line.append((self._calendar.now + self._lease_seconds, trajectory))

    def _expire_overdue(self) -> None:
        now = self._calendar.now
        overdue = takewhile(lambda lease: lease[0] <= now, self._line)
        self._expire([each for _, each in overdue if each in self._leased])
        self._forget_ended()
        if self._line:
            self._calendar.set(self._alarm, max(0.0, self._line[0][0] - now))

    def _forget_ended(self) -> None:
        """Drop ended leases from the front of the line."""
        while self._line and self._line[0][1] not in self._leased:
            self._line.popleft()
