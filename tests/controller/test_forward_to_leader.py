"""Progress reports that reach a standby replica, over real TLS."""

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from hetrl_cli.run.setup.ports import free_ports
from hetrl_operator.http.forward_to_leader import RELAYED, LeaderForwarder
from hetrl_operator.http.listener import served
from hetrl_operator.http.progress import server_tls
from hetrl_operator.render import tls

HOST = "hetrl.hetrl-system.svc"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    issued = tls.issue(
        seed=os.urandom(32), job="operator", dns_names=(HOST,), now=datetime.now(UTC)
    )
    leaf = issued.leaves[0][1]
    (tmp_path / "ca.crt").write_bytes(issued.authority)
    (tmp_path / "tls.crt").write_bytes(leaf.certificate)
    (tmp_path / "tls.key").write_bytes(leaf.key)
    return tmp_path


@pytest.fixture
async def leader(folder: Path) -> AsyncIterator[str]:
    """A leader that says what it was sent."""

    async def take(request: web.Request) -> web.Response:
        said = await request.text()
        headers = {name: request.headers.get(name, "") for name in ("Authorization", RELAYED)}
        return web.json_response({"path": request.path, "said": said, **headers}, status=202)

    application = web.Application()
    application.router.add_post("/{any:.*}", take)
    (port,) = free_ports(1)
    async with served(application, port=port, tls=server_tls(folder)):
        yield f"127.0.0.1:{port}"


async def reply_of(
    folder: Path, address: str, *, host: str = HOST, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str]]:
    """Report to a replica that stands by; return its answer."""
    forwarder = LeaderForwarder(
        leads=lambda: False,
        address=lambda: address,
        authority=folder / "ca.crt",
        url=f"https://{host}:8443",
    )
    application = web.Application()
    application.router.add_post("/{any:.*}", forwarder.forward)
    (port,) = free_ports(1)
    async with (
        served(application, port=port),
        aiohttp.ClientSession() as session,
        session.post(
            f"http://127.0.0.1:{port}/v1/progress",
            data='{"step": 3}',
            headers={"Authorization": "Bearer token", **(headers or {})},
        ) as reply,
    ):
        return reply.status, await reply.json()


async def test_report_reaches_the_leader_as_it_came(folder: Path, leader: str) -> None:
    status, said = await reply_of(folder, leader)

    assert status == 202
    assert said == {
        "path": "/v1/progress",
        "said": '{"step": 3}',
        "Authorization": "Bearer token",
        RELAYED: "1",
    }


async def test_leader_with_another_certificate_does_not_get_the_token(
    folder: Path, leader: str
) -> None:
    status, said = await reply_of(folder, leader, host="elsewhere.svc")

    assert status == 503
    assert "does not answer" in said["message"]


@pytest.mark.parametrize(
    ("address", "headers"),
    [("", {}), ("127.0.0.1:1", {RELAYED: "1"}), ("127.0.0.1:1", {})],
    ids=["no replica leads", "it was forwarded before", "the leader is gone"],
)
async def test_coordinator_must_report_again_without_a_leader(
    folder: Path, address: str, headers: dict[str, str]
) -> None:
    status, _ = await reply_of(folder, address, headers=headers)

    assert status == 503
