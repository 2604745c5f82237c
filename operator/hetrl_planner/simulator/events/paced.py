"""Work that shares one pace: sequences of a continuous batch, or transfers on one link.

All members advance together, the slower the more there are. So a member's end is a mark on
one common counter, fixed when it joins: load changes move the counter's pace, and only the
next end need be known to the calendar.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from hetrl_planner.simulator.events.calendar import Alarm, Calendar

Member = TypeVar("Member")


class PacedWork(Generic[Member]):
    """Members that each gain one unit every ``seconds_per_unit[n]`` while ``n`` run.

    Callers that add or remove members call ``settle`` before and ``schedule_next_end`` after.
    """

    __slots__ = (
        "_alarm",
        "_calendar",
        "_held",
        "_number",
        "_on_done",
        "_resumes_at",
        "_seconds_per_unit",
        "_since",
        "_stalled_seconds",
        "active_seconds",
        "ends",
        "held_seconds",
        "is_stopped",
        "mark",
        "member_seconds",
        "stopped_seconds",
    )

    def __init__(
        self,
        calendar: Calendar,
        seconds_per_unit: Sequence[float],
        on_done: Callable[[list[Member]], None],
    ) -> None:
        self._calendar = calendar
        self._seconds_per_unit = seconds_per_unit
        self._on_done = on_done
        self._alarm = Alarm(self._reach_end)
        self.ends: list[tuple[float, int, Member]] = []
        """Mark at which each member ends, its number, and the member: a heap."""
        self._number = 0
        self._since = calendar.now
        self._resumes_at = 0.0
        self._held = 0
        self._stalled_seconds = 0.0
        self.mark = 0.0
        """Units gained by a member that runs from the start."""
        self.is_stopped = False
        """Whether time counts as stopped; ``stall`` sets the pace."""
        self.stopped_seconds = 0.0
        self.held_seconds = 0.0
        self.active_seconds = 0.0
        """Neither held nor stopped, with any member."""
        self.member_seconds = 0.0
        """Not held, times the members."""

    def settle(self) -> None:
        """Bring the mark and the times to the present."""
        now = self._calendar.now
        elapsed = now - self._since
        # A float literal, because the interpreter compares equal types far faster.
        if elapsed <= 0.0:
            return
        self._since = now
        load = len(self.ends)
        if self._held:
            self.held_seconds += elapsed
            return
        if self.is_stopped:
            self.stopped_seconds += elapsed
        elif load:
            self.active_seconds += elapsed
        if load:
            self.member_seconds += elapsed * load
            running = now - self._resumes_at
            if running > elapsed:
                self.mark += elapsed / self._seconds_per_unit[load]
            elif running > 0.0:
                self.mark += running / self._seconds_per_unit[load]

    def add(self, member: Member, units: float) -> float:
        """Start a member that needs so many units; return the mark at its start."""
        self._number = number = self._number + 1
        mark = self.mark
        heappush(self.ends, (mark + units, number, member))
        return mark

    def remove(self, members: set[Member]) -> None:
        """Remove members before their end."""
        self.ends = [each for each in self.ends if each[2] not in members]
        heapify(self.ends)

    def clear(self) -> list[Member]:
        """Remove all members; return them, oldest first."""
        members = [each[2] for each in sorted(self.ends, key=lambda end: end[1])]
        self.ends = []
        return members

    def members(self) -> list[Member]:
        """Return the running members."""
        return [each[2] for each in self.ends]

    def stall(self, seconds: float) -> None:
        """Stop for so long, after any earlier stall."""
        if self._held:
            self._stalled_seconds += seconds
        elif self._resumes_at > self._calendar.now:
            self._resumes_at += seconds
        else:
            self._resumes_at = self._calendar.now + seconds

    def hold(self) -> None:
        """Stop until released as often."""
        self.settle()
        if not self._held:
            self._stalled_seconds = max(0.0, self._resumes_at - self._calendar.now)
            self._alarm.cancel()
        self._held += 1

    def release(self) -> None:
        """Continue after a hold."""
        self.settle()
        self._held -= 1
        if not self._held:
            self._resumes_at = self._calendar.now + self._stalled_seconds
            self.schedule_next_end()

    def schedule_next_end(self) -> None:
        """Set the alarm to the next end."""
        if not self.ends or self._held:
            self._alarm.cancel()
            return
        units = self.ends[0][0] - self.mark
        seconds = units * self._seconds_per_unit[len(self.ends)] if units > 0.0 else 0.0
        stalled = self._resumes_at - self._calendar.now
        self._calendar.set(self._alarm, seconds + stalled if stalled > 0.0 else seconds)

    def _reach_end(self) -> None:
        self.settle()
        ends = self.ends
        # The exact target mark, not the sum of rounded steps towards it.
        self.mark = ends[0][0]
        done = [heappop(ends)[2]]
        while ends and ends[0][0] <= self.mark:
            done.append(heappop(ends)[2])
        self._on_done(done)
        self.schedule_next_end()
