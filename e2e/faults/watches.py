"""Watch streams through the proxy, and how they fail: cut, silent, gone, repeated, lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from aiohttp import ClientResponse, web

from e2e.faults.fault import Fault

_LOST = 3
"""Events that are lost before a stream ends: intermediate states that stay unseen."""

_ENDS = {Fault.WATCH_GONE: 410, Fault.WATCH_ERROR: 500}


async def pass_on(
    upstream: ClientResponse, downstream: web.StreamResponse, fault: Fault | None
) -> None:
    """Hand a watch's events on until it ends, or the fault ends it."""
    if fault in _ENDS:
        await downstream.write(_error(_ENDS[fault]))
        return
    lost = 0
    async for line in _lines(upstream):
        if fault is Fault.EVENTS_LOST:
            lost += not _is_bookmark(line)
            if lost == _LOST:
                await downstream.write(_error(410))
                return
            continue
        if fault is Fault.WATCH_SILENT:
            # Until the client gives up; its leaving cancels us.
            await asyncio.Event().wait()
        await downstream.write(line)
        if fault is Fault.EVENTS_REPEATED:
            await downstream.write(line)
        if fault is Fault.WATCH_CUT and not _is_bookmark(line):
            raise ConnectionResetError("cut by a fault")


async def _lines(response: ClientResponse) -> AsyncIterator[bytes]:
    """Yield events whole: one may be larger than what a stream's reader takes as a line."""
    rest = b""
    async for piece in response.content.iter_any():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line + b"\n"


def _is_bookmark(line: bytes) -> bool:
    return line.startswith(b'{"type":"BOOKMARK"')


def _error(code: int) -> bytes:
    reason = {410: "Expired", 500: "InternalError"}[code]
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": "made by a fault",
        "code": code,
    }
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
