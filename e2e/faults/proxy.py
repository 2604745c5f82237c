"""A real HTTP proxy on loopback between the operator and an API server.

Plain HTTP towards the operator, mutual TLS towards the API server. It lets a script decide for
each request its fault, and keeps a record of all of them. Runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from e2e.faults.fault import ON_WATCHES, Call, Category, Fault, Script, nothing
from e2e.faults.upstream import Upstream
from e2e.faults.watches import pass_on

_HOP_BY_HOP = {"host", "authorization", "connection", "content-length", "transfer-encoding"}
_STALE_BY = 6
"""Writes that a stale list does not show yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A request and what came of it."""

    call: Call
    status: int
    """As the API server answered; 0 where it never saw the request."""

    name: str
    """Of the object that a write is about."""

    fault: Fault | None


@dataclass(slots=True, kw_only=True)
class Proxy:
    """One proxy; `start` it before the operator, `stop` it after."""

    upstream: Upstream
    kubeconfig: Path
    """Written by us: how the operator reaches us, with the token that is good now."""

    script: Script = nothing
    kill: Callable[[], None] = lambda: None
    """Kills the operator, and returns when it is dead."""

    record: list[Answered] = field(default_factory=list)
    _counts: Counter[Category] = field(default_factory=Counter)
    _versions: list[int] = field(default_factory=list)
    _stale_version: int | None = None
    _num_tokens: int = 0
    _port: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: threading.Thread | None = None
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _session: aiohttp.ClientSession | None = None

    def start(self) -> None:
        """Listen, and write the kubeconfig."""
        listening = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(listening,), name="fault-proxy")
        self._thread.start()
        if not listening.wait(timeout=30):
            raise TimeoutError("the proxy did not listen within 30 s")

    def stop(self) -> None:
        """Stop listening and drop every connection."""
        assert self._thread
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(timeout=30)

    def use(self, script: Script) -> None:
        """Reset the proxy: another script, an empty record, counts from 1."""
        self._loop.call_soon_threadsafe(self._begin, script)

    def _begin(self, script: Script) -> None:
        self.script, self.record, self._stale_version = script, [], None
        self._counts.clear()
        self._versions.clear()

    def _run(self, listening: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve(listening))
        finally:
            self._loop.close()

    async def _serve(self, listening: threading.Event) -> None:
        connector = aiohttp.TCPConnector(ssl=self.upstream.tls(), limit=0)
        async with aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
        ) as self._session:
            runner = web.ServerRunner(
                web.Server(self._handle, access_log=None, handler_cancellation=True),
                shutdown_timeout=0.1,
            )
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self._port = runner.addresses[0][1]
            self._renew_token()
            listening.set()
            await self._stopped.wait()
            await runner.cleanup()

    def _renew_token(self) -> None:
        self._num_tokens += 1
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self._port}"}}],
            "users": [{"name": "u", "user": {"token": self._token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        partial = self.kubeconfig.with_suffix(".partial")
        partial.write_text(json.dumps(content))
        partial.rename(self.kubeconfig)

    @property
    def _token(self) -> str:
        return f"token-{self._num_tokens}"

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        if request.headers.get("Authorization") != f"Bearer {self._token}":
            return _refusal(401)
        call = self._call(request)
        fault = self.script(call)
        if (fault in ON_WATCHES) != (call.category is Category.WATCH) and fault is not None:
            raise ValueError(f"{fault!r} does not apply to a {call.category}")
        if call.category is Category.WATCH:
            return await self._watch(request, call, fault)
        refused = self._before(request, call, fault)
        if refused is not None:
            return refused
        reply, content = await self._forward(request, body)
        self._note(call, fault, reply.status, content)
        return self._after(request, fault, reply, content)

    def _call(self, request: web.BaseRequest) -> Call:
        category = _category(request)
        self._counts[category] += 1
        number = self._counts[category]
        return Call(number=number, category=category, method=request.method, path=request.path)

    def _before(
        self, request: web.BaseRequest, call: Call, fault: Fault | None
    ) -> web.Response | None:
        """Inject a fault before the API server sees the request; None: the request continues."""
        match fault:
            case Fault.KILL_BEFORE:
                self.kill()
            case Fault.DROP_BEFORE:
                pass
            case Fault.CONFLICT | Fault.GONE | Fault.THROTTLED | Fault.ERROR_BEFORE:
                self._note(call, fault, 0, b"")
                code = {Fault.CONFLICT: 409, Fault.GONE: 410, Fault.THROTTLED: 429}.get(fault, 500)
                return _refusal(code)
            case Fault.EXPIRED:
                self._note(call, fault, 0, b"")
                self._renew_token()
                return _refusal(401)
            case _:
                return None
        self._note(call, fault, 0, b"")
        return _cut(request)

    def _after(
        self,
        request: web.BaseRequest,
        fault: Fault | None,
        reply: aiohttp.ClientResponse,
        content: bytes,
    ) -> web.Response:
        match fault:
            case Fault.ERROR_AFTER:
                return _refusal(500)
            case Fault.DROP_AFTER:
                return _cut(request)
            case Fault.KILL_AFTER:
                self.kill()
                return _cut(request)
            case Fault.KILL_AND_STALE:
                self._stale_version = self._versions[-_STALE_BY:][0] if self._versions else None
                self.kill()
                return _cut(request)
            case _:
                return web.Response(status=reply.status, body=content, headers=_kept(reply.headers))

    async def _forward(
        self, request: web.BaseRequest, body: bytes
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        assert self._session
        async with self._session.request(
            request.method, self._url(request), data=body or None, headers=_kept(request.headers)
        ) as reply:
            return reply, await reply.read()

    async def _watch(
        self, request: web.BaseRequest, call: Call, fault: Fault | None
    ) -> web.StreamResponse:
        assert self._session
        async with self._session.get(self._url(request), headers=_kept(request.headers)) as reply:
            self._note(call, fault, reply.status, b"")
            response = web.StreamResponse(status=reply.status, headers=_kept(reply.headers))
            response.enable_chunked_encoding()
            with contextlib.suppress(ConnectionResetError, aiohttp.ClientError):
                await response.prepare(request)
                await pass_on(reply, response, fault)
                await response.write_eof()
                return response
            _cut(request)
            return response

    def _url(self, request: web.BaseRequest) -> str:
        query = dict(request.query)
        is_list = _category(request) is Category.LIST
        if is_list and self._stale_version is not None and "continue" not in query:
            query |= {
                "resourceVersion": str(self._stale_version),
                "resourceVersionMatch": "Exact",
            }
        return f"{self.upstream.server}{request.path}?{urlencode(query)}"

    def _note(self, call: Call, fault: Fault | None, status: int, content: bytes) -> None:
        name = ""
        if call.category is Category.WRITE and content:
            name = self._written(content)
        self.record.append(Answered(call=call, status=status, name=name, fault=fault))

    def _written(self, content: bytes) -> str:
        found: dict[str, Any] = json.loads(content)
        metadata = found.get("metadata") or {}
        if "resourceVersion" in metadata:
            self._versions.append(int(metadata["resourceVersion"]))
        return f"{found.get('kind', '')}/{metadata.get('name', '')}"


def _category(request: web.BaseRequest) -> Category:
    if request.method != "GET":
        return Category.WRITE
    if request.query.get("watch") in {"true", "1"}:
        return Category.WATCH
    # Lists end with the plural; objects are one level deeper, and groups are discovered.
    return Category.LIST if "limit" in request.query else Category.READ


def _kept(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


def _refusal(code: int) -> web.Response:
    reasons = {
        401: "Unauthorized",
        409: "Conflict",
        410: "Expired",
        429: "TooManyRequests",
        500: "InternalError",
    }
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reasons[code],
        "message": "made by a fault",
        "code": code,
        "metadata": {},
    }
    headers = {"Retry-After": "1"} if code == 429 else {}
    return web.json_response(body, status=code, headers=headers)


def _cut(request: web.BaseRequest) -> web.Response:
    """Drop the connection without an answer; what is returned is never sent."""
    if request.transport:
        request.transport.abort()
    return web.Response()
