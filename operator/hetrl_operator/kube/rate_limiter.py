"""A token bucket that limits the average rate of requests and their bursts.

An API server protects itself, but from all clients alike. The limit keeps an operator with
thousands of jobs from overloading it. Waiters are served in order.
"""

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class RateLimiter:
    """A bucket of tokens that refills at a steady rate. It belongs to one event loop."""

    per_second: float
    burst: float
    _left: float = field(init=False)
    _at: float | None = None

    def __post_init__(self) -> None:
        self._left = self.burst

    async def take(self) -> float:
        """Wait for a token and take it; return the seconds that it took."""
        now = asyncio.get_running_loop().time()
        passed = now - (now if self._at is None else self._at)
        self._at = now
        # A negative value counts tokens that are promised to earlier waiters.
        self._left = min(self.burst, self._left + passed * self.per_second) - 1
        wait = max(0.0, -self._left / self.per_second)
        if wait:
            await asyncio.sleep(wait)
        return wait
