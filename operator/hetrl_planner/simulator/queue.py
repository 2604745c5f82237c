"""Whole groups that wait for the trainer, as many as there is room for; others wait outside.

A group outside keeps the place of its last member, as a worker does that cannot hand over.
"""

from collections import deque
from collections.abc import Callable, Iterable

from hetrl_planner.simulator.replica import Replica
from hetrl_planner.simulator.trajectory import PromptGroup, Trajectory


class GroupQueue:
    """First in, first out; ``room`` tells how many groups fit at the moment, None any number."""

    def __init__(self, room: Callable[[], int | None]) -> None:
        self._room = room
        self._ready: deque[PromptGroup] = deque()
        self._outside: deque[PromptGroup] = deque()

    def __len__(self) -> int:
        return len(self._ready)

    def offer(self, group: PromptGroup) -> bool:
        """Let a whole group in, or leave it outside; tell which."""
        if self._has_room():
            self._ready.append(group)
            return True
        self._outside.append(group)
        _last_replica(group).num_held_places += 1
        return False

    def admit(self) -> list[Replica]:
        """Let in who waits outside, while there is room; return the replicas that get places."""
        relieved = []
        while self._outside and self._has_room():
            group = self._outside.popleft()
            self._ready.append(group)
            relieved.append(self._relieve(group))
        return relieved

    def take(self, count: int) -> list[Trajectory]:
        """Take out the members of the oldest groups, so many groups."""
        return [each for _ in range(count) for each in self._ready.popleft().accepted]

    def put_back(self, groups: Iterable[PromptGroup]) -> None:
        """Put groups first in line that were taken out."""
        self._ready.extendleft(reversed(list(groups)))

    def discard(self, broken: set[PromptGroup]) -> list[Replica]:
        """Take out groups that are whole no more; return the replicas that get places."""
        relieved = [self._relieve(each) for each in self._outside if each in broken]
        self._ready = deque(each for each in self._ready if each not in broken)
        self._outside = deque(each for each in self._outside if each not in broken)
        return relieved

    def _has_room(self) -> bool:
        room = self._room()
        return room is None or len(self._ready) < room

    def _relieve(self, group: PromptGroup) -> Replica:
        replica = _last_replica(group)
        replica.num_held_places -= 1
        return replica


def _last_replica(group: PromptGroup) -> Replica:
    return group.accepted[-1].replica
