"""The work queue between watch events and the workers.

A key waits at most once, however often it is added. A key that is added while it is processed is
processed once more. Failed keys are requeued with exponential backoff per key, so that one broken
job never starves the others.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key")


class QueueMetrics(Protocol):
    """The metrics of a queue; ``http.metrics.Workqueue`` exports them."""

    def depth(self, size: int) -> None:
        """Record the number of waiting keys."""

    def added(self) -> None:
        """Count a key that begins to wait."""

    def waited(self, seconds: float) -> None:
        """Record how long a key waited for a worker."""

    def worked(self, seconds: float) -> None:
        """Record how long a worker was busy with a key."""

    def retried(self) -> None:
        """Count a key that comes back after a failure."""


@dataclass(slots=True)
class _Later:
    """One delayed add: kept only when it is the earliest for its key."""

    at: float
    handle: asyncio.TimerHandle


@dataclass(slots=True)
class WorkQueue(Generic[Key]):
    """Keys to work on, each once. Belongs to one event loop."""

    metrics: QueueMetrics
    base_backoff_seconds: float = 0.05
    max_backoff_seconds: float = 300.0
    """The slowest retry: a job that a person must fix should not wait longer for the fix."""

    _waiting: deque[Key] = field(default_factory=deque)
    _since: dict[Key, float] = field(default_factory=dict)
    _working: dict[Key, float] = field(default_factory=dict)
    _requeued: set[Key] = field(default_factory=set)
    _failures: dict[Key, int] = field(default_factory=dict)
    _later: dict[Key, _Later] = field(default_factory=dict)
    _something: asyncio.Event = field(default_factory=asyncio.Event)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key) -> None:
        """Add a key; it has no effect if the key waits already."""
        if key in self._working:
            self._requeued.add(key)
            return
        if key in self._since:
            return
        self._since[key] = _clock()
        self._waiting.append(key)
        self._something.set()
        self.metrics.added()
        self.metrics.depth(len(self._waiting))

    def add_after(self, key: Key, seconds: float) -> None:
        """Add a key after a delay; of several delayed adds the earliest counts."""
        at = _clock() + max(0.0, seconds)
        known = self._later.get(key)
        if known is not None:
            if known.at <= at:
                return
            known.handle.cancel()
        handle = asyncio.get_running_loop().call_later(max(0.0, seconds), self._due, key)
        self._later[key] = _Later(at=at, handle=handle)

    def retry(self, key: Key, *, at_least_seconds: float = 0.0) -> float:
        """Requeue a failed key with twice the last backoff; return the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        backoff = min(
            self.max_backoff_seconds, self.base_backoff_seconds * 2.0 ** min(failures, 30)
        )
        delay = max(at_least_seconds, backoff)
        self.metrics.retried()
        self.add_after(key, delay)
        return delay

    def forget(self, key: Key) -> None:
        """Reset a key's backoff after a success."""
        self._failures.pop(key, None)

    def drop(self, key: Key) -> None:
        """Drop the state of a key whose object is gone."""
        self.forget(key)
        later = self._later.pop(key, None)
        if later is not None:
            later.handle.cancel()

    async def get(self) -> Key:
        """Wait for a key and take it; call ``done`` after processing it."""
        while not self._waiting:
            self._something.clear()
            await self._something.wait()
        key = self._waiting.popleft()
        now = _clock()
        self.metrics.waited(now - self._since.pop(key))
        self.metrics.depth(len(self._waiting))
        self._working[key] = now
        return key

    def done(self, key: Key) -> None:
        """Mark a key as processed; it is queued again if it was added meanwhile."""
        self.metrics.worked(_clock() - self._working.pop(key))
        if key in self._requeued:
            self._requeued.discard(key)
            self.add(key)

    def _due(self, key: Key) -> None:
        self._later.pop(key, None)
        self.add(key)


def _clock() -> float:
    return asyncio.get_running_loop().time()
