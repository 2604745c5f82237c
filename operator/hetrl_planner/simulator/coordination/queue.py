"""The bounded queue of whole groups that wait for the trainer; others wait outside.

A group outside keeps the place of its last member, like a worker that cannot deliver.
"""

from collections import deque
from collections.abc import Callable, Iterable

from hetrl_planner.simulator.events.trajectory import PromptGroup, Trajectory
from hetrl_planner.simulator.serving.replica import Replica


class GroupQueue:
    """A FIFO queue; ``room`` returns the groups that fit now, None for any number."""

    def __init__(self, room: Callable[[], int | None]) -> None:
        self._room = room
        self._ready: deque[PromptGroup] = deque()
        self._outside: deque[tuple[PromptGroup, Replica]] = deque()

    def __len__(self) -> int:
        return len(self._ready)

    def offer(self, group: PromptGroup, *, last: Replica) -> bool:
        """Admit a whole group, or leave it outside in a place of its last replica; tell which."""
        if self._has_room():
            self._ready.append(group)
            return True
        self._outside.append((group, last))
        last.num_held_places += 1
        return False

    def admit(self) -> list[Replica]:
        """Admit groups from outside while there is room; return the replicas that get places."""
        relieved = []
        while self._outside and self._has_room():
            group, last = self._outside.popleft()
            self._ready.append(group)
            last.num_held_places -= 1
            relieved.append(last)
        return relieved

    def take(self, count: int) -> list[Trajectory]:
        """Remove so many of the oldest groups; return their members."""
        return [each for _ in range(count) for each in self._ready.popleft().accepted]

    def put_back(self, groups: Iterable[PromptGroup]) -> None:
        """Return groups to the front of the queue."""
        self._ready.extendleft(reversed(list(groups)))

    def discard(self, broken: set[PromptGroup]) -> list[Replica]:
        """Remove groups that are no longer whole; return the replicas that get places."""
        relieved = [last for group, last in self._outside if group in broken]
        for last in relieved:
            last.num_held_places -= 1
        self._ready = deque(each for each in self._ready if each not in broken)
        self._outside = deque(each for each in self._outside if each[0] not in broken)
        return relieved

    def _has_room(self) -> bool:
        room = self._room()
        return room is None or len(self._ready) < room
