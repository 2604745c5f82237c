"""Our own writes until the watches show them. Without them, a reconcile would write twice.

A watch lags the API server by some milliseconds, and a reconcile in between would not see the last
one's writes. A watch may also be ahead: if an object changes again at once, the watch may show that
before we have read the response to our write.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Value = TypeVar("Value")
Place = tuple[str, str, str]
"""Kind, namespace and name."""

FORGOTTEN_AFTER_SECONDS = 30.0
"""Lifetime of a pending write. A watch that lags longer is broken, and its state then counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write(Generic[Value]):
    value: Value
    owner: str
    version: int
    at: float


@dataclass(slots=True)
class PendingWrites(Generic[Value]):
    """Values of objects from our own writes."""

    clock: Callable[[], float] = time.monotonic
    _writes: dict[Place, _Write[Value]] = field(default_factory=dict)
    _owned: dict[tuple[str, str], set[Place]] = field(default_factory=dict)
    """Places by kind and owner: a reconcile only reads those of its own job."""

    _shown: dict[Place, int] = field(default_factory=dict)
    """The newest version that watches have shown of each existing object."""

    _ended: dict[Place, tuple[int, float]] = field(default_factory=dict)
    """Recent deletions: the version of each, and when a watch showed it."""

    def wrote(self, place: Place, value: Value, *, resource_version: str, owner: str = "") -> None:
        """Store the result of a write, unless a watch has shown it already.

        Args:
            place: the object's place.
            value: the object's value after the write.
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
        """Return a write that the watches have not shown yet; None if there is none."""
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
        """Drop a write that a watch has shown."""
        found, version = self._writes.get(place), int(resource_version or 0)
        if found and (is_deleted or version >= found.version):
            self._drop(place)
        if is_deleted:
            self._shown.pop(place, None)
            self._remember_end(place, version)
        else:
            self._shown[place] = version

    def is_newer(self, place: Place, version: int) -> bool:
        """Tell whether a watch has shown a newer version of an object."""
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
