"""Members of started groups that wait for a worker, the earliest group first."""

import heapq

from hetrl_runtime.wire.trajectory import TrajectoryId


class Pending:
    """A set that is taken from in order."""

    def __init__(self) -> None:
        self._waiting: set[TrajectoryId] = set()
        self._queue: list[TrajectoryId] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, identity: TrajectoryId) -> bool:
        return identity in self._waiting

    def add(self, identity: TrajectoryId) -> None:
        """Let a member wait."""
        if identity not in self._waiting:
            self._waiting.add(identity)
            heapq.heappush(self._queue, identity)

    def discard(self, identity: TrajectoryId) -> None:
        """Let a member wait no more."""
        # Its place in the queue stays behind and is passed over by ``take``.
        self._waiting.discard(identity)

    def take(self, limit: int) -> list[TrajectoryId]:
        """Remove and return the first members, up to a limit."""
        taken: list[TrajectoryId] = []
        while self._waiting and len(taken) < limit:
            identity = heapq.heappop(self._queue)
            if identity in self._waiting:
                self._waiting.discard(identity)
                taken.append(identity)
        return taken
