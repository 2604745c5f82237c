"""Accepted trajectories that wait for a batch, by group.

Only whole groups are trained on, because GRPO's advantage compares the members of a group. A member
that was not judged keeps an empty place: it makes its group whole, counts as accepted for the
staleness bound, and is not trained on. ``state`` decides which trajectories may enter.
"""

from collections.abc import Callable, Iterator
from itertools import chain

from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import TrajectoryId


class Buffer:
    """Groups that fill up and leave as batches, the oldest sampled first."""

    def __init__(self, *, group_size: int) -> None:
        self._group_size = group_size
        self._groups: dict[int, dict[int, DeliveredTrajectory | None]] = {}
        self._size = 0
        self._num_whole = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, identity: TrajectoryId) -> bool:
        return identity.member in self._groups.get(identity.group, ())

    def __iter__(self) -> Iterator[DeliveredTrajectory]:
        return chain.from_iterable(map(_judged, self._groups.values()))

    def add(self, trajectory: DeliveredTrajectory) -> None:
        """Add a trajectory that is not in the buffer yet."""
        self._put(trajectory.id, trajectory)

    def add_unjudged(self, identity: TrajectoryId) -> None:
        """Add the empty place of a member that was not judged."""
        self._put(identity, None)

    def _put(self, identity: TrajectoryId, trajectory: DeliveredTrajectory | None) -> None:
        members = self._groups.setdefault(identity.group, {})
        if identity.member in members:
            raise ValueError(f"trajectory {identity} is in the buffer already")
        members[identity.member] = trajectory
        self._size += 1
        self._num_whole += len(members) == self._group_size

    def remove(self, identity: TrajectoryId) -> bool:
        """Remove one trajectory; return whether it was there."""
        members = self._groups.get(identity.group)
        if members is None or identity.member not in members:
            return False
        self._num_whole -= len(members) == self._group_size
        self._size -= 1
        del members[identity.member]
        if not members:
            del self._groups[identity.group]
        return True

    def remove_group(self, group: int) -> tuple[TrajectoryId, ...]:
        """Remove a group; return its trajectories."""
        members = self._groups.pop(group, {})
        self._num_whole -= len(members) == self._group_size
        self._size -= len(members)
        return tuple(TrajectoryId(group, member) for member in members)

    def remove_where(
        self, applies: Callable[[DeliveredTrajectory], bool]
    ) -> tuple[TrajectoryId, ...]:
        """Remove every trajectory that a rule applies to; return their ids."""
        removed = tuple(each.id for each in self if applies(each))
        for identity in removed:
            self.remove(identity)
        return removed

    def whole_group(self, group: int) -> tuple[DeliveredTrajectory, ...]:
        """Return a group's judged members once all are here, nothing before."""
        members = self._groups.get(group, {})
        return tuple(_judged(members)) if len(members) == self._group_size else ()

    def num_unjudged(self, group: int) -> int:
        """Count a group's members that were not judged."""
        return sum(each is None for each in self._groups.get(group, {}).values())

    @property
    def num_in_whole_groups(self) -> int:
        """The number of places in whole groups; cheap."""
        return self._group_size * self._num_whole

    def num_ready(self, *, version: int) -> int:
        """Count the places in whole groups that ``version`` may train on."""
        return self._group_size * len(self._ready(version))

    def oldest_batch(self, size: int, *, version: int) -> tuple[DeliveredTrajectory, ...]:
        """Return whole groups with ``size`` places together; empty when too few.

        They stay here until removed.
        """
        groups = self._ready(version)
        if len(groups) * self._group_size < size:
            return ()
        groups.sort(key=_age)
        return tuple(chain.from_iterable(groups[: size // self._group_size]))

    def _ready(self, version: int) -> list[list[DeliveredTrajectory]]:
        whole = (
            _judged(members)
            for members in self._groups.values()
            if len(members) == self._group_size
        )
        # A worker may have fetched the next weights before they were committed.
        return [
            members for members in whole if all(each.newest_version <= version for each in members)
        ]


def _judged(members: dict[int, DeliveredTrajectory | None]) -> list[DeliveredTrajectory]:
    return [each for _, each in sorted(members.items()) if each is not None]


def _age(members: list[DeliveredTrajectory]) -> tuple[int, int]:
    return min(each.oldest_version for each in members), members[0].group
