"""Throughput of grpc.aio alone: sixty-four streams of messages that are not decoded.

The same loop, scheduling, TLS, message size and load as ``load``'s, without decode, ledger and
journal: the most that a coordinator in Python could do.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio

from bench.wire.stage import NUM_WORKERS, as_role, cpu_seconds, launch_in, peer
from hetrl_core import launch as contract
from hetrl_core.launch import Launch
from hetrl_core.task import Role
from hetrl_runtime.transport.channel import bind, open_async_server, open_channel
from hetrl_runtime.transport.event_loop import on_the_fastest_loop, spare_the_processor

_DELIVER = "/bare.Coordinator/Deliver"
_RECEIPT = bytes(12)


def serve(launch_file: str) -> None:
    """Answer every message with one of a receipt's size, until standard input ends."""
    launch = contract.from_json(Path(launch_file).read_text())
    spare_the_processor()
    on_the_fastest_loop(_serve(launch))


async def _serve(launch: Launch) -> None:
    async def deliver(requests: AsyncIterator[bytes], _context: object) -> AsyncIterator[bytes]:
        async for _ in requests:
            yield _RECEIPT

    handler = grpc.stream_stream_rpc_method_handler(deliver)
    server = open_async_server({_DELIVER: frozenset({Role.ROLLOUT})})
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("bare.Coordinator", {"Deliver": handler}),)
    )
    bind(server, launch.coordinator, launch.tls)
    await server.start()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(grace=None)


def measure(folder: Path, *, core: int, message_bytes: int, num_messages: int) -> dict[str, float]:
    """Return messages by the second, of the clock's and of the server's processor time."""
    launch = launch_in(folder)
    file = folder / "bare.json"
    file.write_text(contract.to_json(launch))
    with peer("bench.wire.bare", str(file), core=core) as pid:
        reader = as_role(launch, Role.ROLLOUT)
        on_the_fastest_loop(_send(reader, bytes(message_bytes), num_messages // 4))
        began, cpu = time.monotonic(), cpu_seconds(pid)
        on_the_fastest_loop(_send(reader, bytes(message_bytes), num_messages))
        seconds = time.monotonic() - began
        return {
            "per_second": num_messages / seconds,
            "per_cpu_second": num_messages / (cpu_seconds(pid) - cpu),
        }


async def _send(launch: Launch, message: bytes, num_messages: int) -> None:
    left = iter(range(num_messages))

    async def send() -> None:
        async with open_channel(
            launch.coordinator, launch.tls, program=Role.COORDINATOR
        ) as channel:
            stream = channel.stream_stream(_DELIVER)()
            for _ in left:
                await stream.write(message)
                await stream.read()
            await stream.done_writing()

    await asyncio.gather(*(send() for _ in range(NUM_WORKERS)))


if __name__ == "__main__":
    serve(sys.argv[1])
