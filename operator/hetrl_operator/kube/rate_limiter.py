"""A token bucket: so many requests a second on average, so many at once.

An API server protects itself, but from all clients alike; this keeps one operator with thousands
of jobs from being the reason. Waiters are served in the order in which they came.
"""

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Throttle:
    """Tokens that come back at a steady rate. Belongs to one event loop."""

    per_second: float
    at_once: float
    _left: float = field(init=False)
    _at: float | None = None

    def __post_init__(self) -> None:
        self._left = self.at_once

    async def take(self) -> float:
        """Wait for a token and take it; return the seconds that it took."""
        now = asyncio.get_running_loop().time()
        passed = now - (now if self._at is None else self._at)
        self._at = now
        # Below zero: tokens that are promised to those who wait already.
        self._left = min(self.at_once, self._left + passed * self.per_second) - 1
        wait = max(0.0, -self._left / self.per_second)
        if wait:
            await asyncio.sleep(wait)
        return wait
