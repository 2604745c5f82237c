"""The token bucket: what waits, and for how long."""

import asyncio

import pytest

from hetrl_operator.kube.rate_limiter import RateLimiter


async def test_burst_passes_at_once_and_the_rest_in_turn() -> None:
    rate_limiter = RateLimiter(per_second=10, burst=3)

    waits = await asyncio.gather(*(rate_limiter.take() for _ in range(6)))

    assert waits[:3] == [0, 0, 0]
    assert waits[3:] == pytest.approx([0.1, 0.2, 0.3], abs=0.05)


async def test_quiet_time_fills_the_bucket_and_no_more() -> None:
    rate_limiter = RateLimiter(per_second=1000, burst=2)
    await asyncio.gather(*(rate_limiter.take() for _ in range(2)))

    await asyncio.sleep(0.05)  # twenty-five times what fills it

    assert [await rate_limiter.take() for _ in range(2)] == [0, 0]
