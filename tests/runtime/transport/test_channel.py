"""gRPC servers that meet connections without a certificate."""

import contextlib
import socket
from pathlib import Path

import pytest

from hetrl_core.task import Role
from hetrl_runtime.transport import channel
from hetrl_runtime.transport.channel import open_channel
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import CoordinatorStub
from tests.runtime.certificates import issued
from tests.runtime.coordinators import a_coordinator
from tests.runtime.launches import a_launch

SILENT = 300


@pytest.mark.slow
@pytest.mark.parametrize(
    "start", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "half-a-hello"]
)
async def test_silent_connections_keep_nobody_waiting_and_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    shorter = [
        (name, 2000 if name == "grpc.server_handshake_timeout_ms" else value)
        for name, value in channel._SERVER_OPTIONS
    ]
    monkeypatch.setattr(channel, "_SERVER_OPTIONS", shorter)
    tls = issued(tmp_path / "tls")
    launch = a_launch(tmp_path, tls=tls(Role.COORDINATOR))
    place = (launch.coordinator.host, launch.coordinator.port)
    async with a_coordinator(launch):
        ours = open_channel(launch.coordinator, tls(Role.ROLLOUT), program=Role.COORDINATOR)
        async with ours as opened:
            stub = CoordinatorStub(opened)
            await stub.GetProgress(pb.ProgressRequest(), wait_for_ready=True, timeout=60)
            with contextlib.ExitStack() as stack:
                silent = [
                    stack.enter_context(socket.create_connection(place, timeout=60))
                    for _ in range(SILENT)
                ]
                for each in silent:
                    each.sendall(start)
                await stub.GetProgress(pb.ProgressRequest(), timeout=60)
                for each in silent:
                    with contextlib.suppress(ConnectionError):
                        while each.recv(100):
                            pass
