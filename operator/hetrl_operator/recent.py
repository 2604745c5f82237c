"""Our own writes until the watches show them: reading them back keeps us from writing twice.

A watch is behind the API server by some milliseconds, and a round that starts in between
would not see what the last one did.
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
    version: int
    at: float


@dataclass(slots=True)
class RecentWrites(Generic[Value]):
    """Values of objects as we wrote them."""

    clock: Callable[[], float] = time.monotonic
    _writes: dict[Place, _Write[Value]] = field(default_factory=dict)

    def wrote(self, place: Place, value: Value, *, resource_version: str) -> None:
        """Remember what the API server answered to a write."""
        version = int(resource_version or 0)
        self._writes[place] = _Write(value=value, version=version, at=self.clock())

    def get(self, place: Place) -> Value | None:
        """Return a write that the watches have not shown yet."""
        found = self._writes.get(place)
        if found is None:
            return None
        if self.clock() - found.at > FORGOTTEN_AFTER_SECONDS:
            del self._writes[place]
            return None
        return found.value

    def of(self, kind: str, namespace: str) -> dict[str, Value]:
        """Return all such writes of a kind in a namespace, by name."""
        names = [name for each, space, name in self._writes if (each, space) == (kind, namespace)]
        found = {name: self.get((kind, namespace, name)) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def shown(self, place: Place, *, resource_version: str, is_deleted: bool) -> None:
        """Forget a write that a watch has caught up with."""
        found = self._writes.get(place)
        if found and (is_deleted or int(resource_version or 0) >= found.version):
            del self._writes[place]
