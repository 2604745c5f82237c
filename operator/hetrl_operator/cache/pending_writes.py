"""Our own writes until the watches show them: reading them back keeps us from writing twice.

A watch is behind the API server by some milliseconds, and a round that starts in between
would not see what the last one did. It may be ahead of us as well: where an object changes again
at once, its watch may tell of that before we have read the answer to our write.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Value = TypeVar("Value")
Place = tuple[str, str, str]
"""Kind, namespace and name."""

FORGOTTEN_AFTER_SECONDS = 30.0
"""A watch that is further behind is broken, and what it shows is the better guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write(Generic[Value]):
    value: Value
    owner: str
    version: int
    at: float


@dataclass(slots=True)
class PendingWrites(Generic[Value]):
    """Values of objects as we wrote them."""

    clock: Callable[[], float] = time.monotonic
    _writes: dict[Place, _Write[Value]] = field(default_factory=dict)
    _owned: dict[tuple[str, str], set[Place]] = field(default_factory=dict)
    """By kind and owner, where there are any: a round asks for its own job's, of thousands."""

    _shown: dict[Place, int] = field(default_factory=dict)
    """The newest version that watches have shown of what there is."""

    _ended: dict[Place, tuple[int, float]] = field(default_factory=dict)
    """Of what was deleted lately: the version of its end, and when we heard of it."""

    def wrote(self, place: Place, value: Value, *, resource_version: str, owner: str = "") -> None:
        """Remember what the API server answered to a write, unless watches have shown it.

        Args:
            place: where the object is.
            value: what it is now.
            resource_version: its version.
            owner: uid of the job that it belongs to, for ``of``.
        """
        version = int(resource_version or 0)
        if version <= max(self._shown.get(place, 0), self._ended.get(place, (0, 0.0))[0]):
            return
        self._drop(place)
        self._writes[place] = _Write(value=value, owner=owner, version=version, at=self.clock())
        self._owned.setdefault((place[0], owner), set()).add(place)

    def get(self, place: Place) -> Value | None:
        """Return a write that the watches have not shown yet."""
        found = self._writes.get(place)
        if found is None:
            return None
        if self.clock() - found.at > FORGOTTEN_AFTER_SECONDS:
            self._drop(place)
            return None
        return found.value

    def of(self, kind: str, owner: str) -> dict[str, Value]:
        """Return all such writes of a kind that belong to a job, by name."""
        places = tuple(self._owned.get((kind, owner), ()))
        found = {place[-1]: self.get(place) for place in places}
        return {name: value for name, value in found.items() if value is not None}

    def shown(self, place: Place, *, resource_version: str, is_deleted: bool) -> None:
        """Forget a write that a watch has caught up with."""
        found, version = self._writes.get(place), int(resource_version or 0)
        if found and (is_deleted or version >= found.version):
            self._drop(place)
        if is_deleted:
            self._shown.pop(place, None)
            self._remember_end(place, version)
        else:
            self._shown[place] = version

    def is_newer(self, place: Place, version: int) -> bool:
        """Tell whether a watch has shown what is at a place as of later than a version."""
        return self._shown.get(place, 0) > version

    def _drop(self, place: Place) -> None:
        found = self._writes.pop(place, None)
        if found is None:
            return
        owned = self._owned[place[0], found.owner]
        owned.discard(place)
        if not owned:
            del self._owned[place[0], found.owner]

    def _remember_end(self, place: Place, version: int) -> None:
        now = self.clock()
        self._ended.pop(place, None)
        self._ended[place] = (version, now)
        # The oldest are first.
        while now - next(iter(self._ended.values()))[1] > FORGOTTEN_AFTER_SECONDS:
            del self._ended[next(iter(self._ended))]
