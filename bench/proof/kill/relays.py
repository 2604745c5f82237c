"""Faulty proxies between two processes.

``Wire`` passes bytes without parsing them, TLS included: it cuts connections and slows them down.
``Relay`` speaks the protocol with the job's own certificates: it repeats messages, drops answers
and corrupts weights. Each listens on a port that is put into the client's contract.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from hetrl_cli.run.setup.ports import LOOPBACK, free_ports
from hetrl_core.launch import Address, TlsFiles
from hetrl_core.task import Role
from hetrl_runtime.transport.callers import caller_role
from hetrl_runtime.transport.channel import bind, open_async_server, open_channel
from hetrl_runtime.wire import hetrl_pb2 as pb

_ANSWERED = frozenset({"Register", "Lease", "Heartbeat", "NextBatch", "Commit"})
"""Methods that end with an answer; the others are streams for as long as somebody listens."""


@dataclass(slots=True, kw_only=True)
class Wire:
    """A TCP proxy; ``listening`` says where."""

    to: Address
    rng: random.Random
    cut_after_bytes: int = 0
    """A connection's mean life; 0: it is never cut."""

    bytes_per_second: float = 0.0
    """0: as fast as it goes."""

    counts: Counter[str] = field(default_factory=Counter)
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Address]:
        (port,) = free_ports(1)
        server = await asyncio.start_server(self._serve, LOOPBACK, port)
        try:
            yield Address(host=LOOPBACK, port=port)
        finally:
            server.close()
            for task in tuple(self._open):
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.counts["connections"] += 1
        left = self.rng.expovariate(1 / self.cut_after_bytes) if self.cut_after_bytes else None
        writers = [writer]
        try:
            there, other = await asyncio.open_connection(self.to.host, self.to.port)
            writers.append(other)
            life = _Life(left_bytes=left)
            pumps = [
                asyncio.create_task(self._pump(reader, other, life)),
                asyncio.create_task(self._pump(there, writer, life)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            self.counts["cut"] += life.is_over
        except OSError:
            self.counts["refused"] += 1
        finally:
            for each in writers:
                # Without a goodbye, as a link that breaks.
                each.transport.abort()
            self._open.discard(task)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, life: "_Life"
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if life.left_bytes is not None:
                    data = data[: max(0, int(life.left_bytes))]
                    life.left_bytes -= len(data) + 1
                writer.write(data)
                await writer.drain()
                if life.is_over:
                    return
                if self.bytes_per_second:
                    await asyncio.sleep(len(data) / self.bytes_per_second)


@dataclass(slots=True, kw_only=True)
class _Life:
    left_bytes: float | None

    @property
    def is_over(self) -> bool:
        return self.left_bytes is not None and self.left_bytes <= 0


@dataclass(slots=True, kw_only=True)
class Relay:
    """A gRPC proxy for every call of a service, as bytes; ``listening`` says where."""

    to: Address
    program: Role
    """What runs there, and what the relay passes for."""

    tls_of: Callable[[Role], TlsFiles]
    """Certificates of a role: the relay calls with those of its caller."""

    rng: random.Random
    repeated: frozenset[str] = frozenset()
    """Methods whose messages all go out twice; one answer comes back."""

    lost_share: float = 0.0
    """Of calls whose answer is given, and lost on the way back."""

    damaged_share: float = 0.0
    """Of weight chunks with a bit that is not what was sent."""

    counts: Counter[str] = field(default_factory=Counter)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Address]:
        (port,) = free_ports(1)
        here = Address(host=LOOPBACK, port=port)
        server = open_async_server()
        async with contextlib.AsyncExitStack() as stack:
            channels = {
                role: await stack.enter_async_context(
                    open_channel(self.to, self.tls_of(role), program=self.program)
                )
                for role in (Role.TRAINER, Role.ROLLOUT)
            }
            server.add_generic_rpc_handlers((_Everything(channels, self),))
            bind(server, here, self.tls_of(self.program))
            await server.start()
            try:
                yield here
            finally:
                await server.stop(grace=0.2)


class _Everything(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc ships no types
    """Takes every method as a stream of bytes each way, which all kinds of calls are."""

    def __init__(self, channels: Mapping[Role, grpc.aio.Channel], relay: Relay) -> None:
        self._channels = channels
        self._relay = relay

    def service(self, details: Any) -> Any:
        call = _Call(self._channels, self._relay, details.method)
        return grpc.stream_stream_rpc_method_handler(call.handle)


@dataclass(frozen=True, slots=True)
class _Call:
    channels: Mapping[Role, grpc.aio.Channel]
    relay: Relay
    method: str

    async def handle(
        self, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[bytes]:
        name, counts, rng = self.method.rpartition("/")[2], self.relay.counts, self.relay.rng
        is_stream = name == "Deliver"
        copies = 2 if name in self.relay.repeated else 1
        loses = name in _ANSWERED and rng.random() < self.relay.lost_share
        channel = self.channels[caller_role(context.auth_context()) or Role.ROLLOUT]
        try:
            if is_stream or copies == 1:
                answers = self._ask(channel, _repeated(requests, copies))
            else:
                said = [each async for each in requests]
                # The whole call twice, as by a client that did not hear the answer.
                await _drained(self._ask(channel, _listed(said)))
                answers = self._ask(channel, _listed(said))
            counts[f"{name} repeated"] += copies - 1
            number = 0
            async for answer in answers:
                number += 1
                if loses:
                    continue
                if is_stream and (number - 1) % copies:
                    continue
                yield self._damaged(answer) if name == "Fetch" else answer
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "")
        if loses:
            counts[f"{name} answers lost"] += 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was lost")

    def _ask(
        self, channel: grpc.aio.Channel, requests: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        ask: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]] = channel.stream_stream(
            self.method
        )
        return ask(requests)

    def _damaged(self, answer: bytes) -> bytes:
        if self.relay.rng.random() >= self.relay.damaged_share:
            return answer
        self.relay.counts["chunks damaged"] += 1
        chunk = pb.WeightChunk.FromString(answer)
        data = bytearray(chunk.data)
        data[self.relay.rng.randrange(len(data))] ^= 1
        chunk.data = bytes(data)
        return chunk.SerializeToString()


async def _repeated(messages: AsyncIterator[bytes], copies: int) -> AsyncIterator[bytes]:
    async for message in messages:
        for _ in range(copies):
            yield message


async def _listed(messages: list[bytes]) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


async def _drained(answers: AsyncIterator[bytes]) -> None:
    async for _ in answers:
        pass
