"""Groups of the pass through the data: done, open or still to come.

Open is started (its trajectories have slots) or waiting (open at the version that a trainer
came back to, and to be generated again). Trained twice means twice along the surviving
history: a rewind reopens what the lost versions consumed.
"""

import heapq

from hetrl_runtime.wire.values import ResumePoint


class GroupLedger:
    """The place in the data, and the groups before it that are not done."""

    def __init__(self, point: ResumePoint) -> None:
        self.version = point.version
        self.next_group = point.next_group
        self.started: set[int] = set()
        self._waiting = set(point.open_groups)
        self._queue = sorted(self._waiting)

    def upcoming(self) -> int:
        """Return the next group to start: the first that waits, else the first that is new."""
        while self._queue and self._queue[0] not in self._waiting:
            heapq.heappop(self._queue)
        return self._queue[0] if self._queue else self.next_group

    def start(self, group: int) -> None:
        """Start a group; new ones that it passes over will wait."""
        self._pass_over(group)
        self._waiting.discard(group)
        self.started.add(group)

    def close(self, group: int) -> None:
        """Count a group as done: it was consumed or given up."""
        self._pass_over(group)
        self._waiting.discard(group)
        self.started.discard(group)

    def is_open(self, group: int) -> bool:
        """Tell whether a group may still be trained on."""
        return group >= self.next_group or group in self.started or group in self._waiting

    def resume_point(self) -> ResumePoint:
        """Return where a run would have to go on from here."""
        return ResumePoint(
            version=self.version,
            next_group=self.next_group,
            open_groups=tuple(sorted(self.started | self._waiting)),
        )

    def _pass_over(self, group: int) -> None:
        for skipped in range(self.next_group, group):
            self._waiting.add(skipped)
            heapq.heappush(self._queue, skipped)
        self.next_group = max(self.next_group, group + 1)
