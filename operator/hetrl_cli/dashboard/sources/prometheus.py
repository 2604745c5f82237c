"""The source that queries a Prometheus, or another server with its HTTP API."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import numpy as np

from hetrl_cli.dashboard.boards.all import BOARDS
from hetrl_cli.dashboard.boards.expression import Expression, Match
from hetrl_cli.dashboard.boards.panel import Board
from hetrl_cli.dashboard.sources.promql import written
from hetrl_cli.dashboard.sources.source import Extent, Line, SourceError, Span

_TIMEOUT_SECONDS = 30.0
_AT_ONCE = 8
"""Queries; Prometheus runs 20 at once by default, and we are not its only reader."""

_SCRAPES_PER_WINDOW = 4
"""So that a rate survives a scrape or two that fail; as Grafana's ``$__rate_interval``."""


class Prometheus:
    """A Prometheus at an address."""

    def __init__(self, url: str, *, scrape_seconds: float) -> None:
        self._url = url.rstrip("/")
        self._scrape_seconds = scrape_seconds
        self._session: aiohttp.ClientSession | None = None
        self._turns = asyncio.Semaphore(_AT_ONCE)

    @property
    def name(self) -> str:
        """Its address."""
        return self._url

    @property
    def boards(self) -> Sequence[Board]:
        """All of them."""
        return BOARDS

    async def choices(self, board: Board) -> list[Mapping[str, str]]:
        """Return the values of the board's variables that series have now."""
        names = [each.name for each in board.variables]
        query = f"group by ({', '.join(names)}) ({board.variables[0].metric})"
        found = await self._get("query", query=query)
        chosen = [{name: each["metric"].get(name, "") for name in names} for each in found]
        return sorted(chosen, key=lambda each: tuple(each.values()))

    async def extent(self, scope: Sequence[Match]) -> Extent | None:  # noqa: ARG002  # any span
        """Return None: how far back it remembers is its own."""
        return None

    async def ask(
        self, asked: Sequence[Expression], scope: tuple[Match, ...], span: Span
    ) -> list[list[Line]]:
        """Answer each expression by a range query."""
        every = self._scrape_seconds
        window = max(_SCRAPES_PER_WINDOW * every, span.step_seconds + every)
        return list(
            await asyncio.gather(
                *(
                    self._range(written(each, scope, window=f"{window:.0f}s"), span)
                    for each in asked
                )
            )
        )

    async def close(self) -> None:
        """Close the connections."""
        if self._session:
            await self._session.close()

    async def _range(self, query: str, span: Span) -> list[Line]:
        times = span.times
        found = await self._get(
            "query_range",
            query=query,
            start=f"{span.begin:.3f}",
            end=f"{times[-1]:.3f}",
            step=f"{span.step_seconds:.3f}",
        )
        return [_line(each, times=len(times), span=span) for each in found]

    async def _get(self, path: str, **params: str) -> list[dict[str, Any]]:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
            self._session = aiohttp.ClientSession(timeout=timeout)
        url = f"{self._url}/api/v1/{path}"
        try:
            async with self._turns, self._session.post(url, data=params) as reply:
                found = json.loads(await reply.read())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            why = str(error) or type(error).__name__
            raise SourceError(f"no answer from Prometheus at {self._url}: {why}") from error
        if found.get("status") != "success":
            raise SourceError(f"Prometheus at {self._url} refuses: {found.get('error', found)}")
        return list(found["data"]["result"])


def _line(found: Mapping[str, Any], *, times: int, span: Span) -> Line:
    values = np.full(times, np.nan)
    for at, value in found["values"]:
        place = round((float(at) - span.begin) / span.step_seconds)
        if 0 <= place < times:
            values[place] = float(value)
    labels = {name: value for name, value in found["metric"].items() if name != "__name__"}
    return Line(labels, values)
