"""Names under which the dashboard answers."""

from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from hetrl_cli.dashboard.hosts import allowed_hosts, is_allowed, is_loopback
from hetrl_cli.dashboard.server import application
from hetrl_cli.dashboard.sources.runs import Runs


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("localhost", True),
        ("LOCALHOST:8642", True),
        ("127.0.0.1:8642", True),
        ("[::1]:8642", True),
        ("10.0.0.7", True),
        ("boards.example", True),
        ("boards.example:80", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("evil.example@localhost:1:2", False),
        ("", False),
        ("[::1", False),
    ],
)
def test_host_header_names_this_machine(host: str, is_ours: bool) -> None:
    allowed = allowed_hosts(listens_on="0.0.0.0", more=("Boards.example",))
    assert is_allowed(host, allowed) is is_ours


@pytest.mark.parametrize(("host", "status"), [("localhost", 200), ("evil.example", 421)])
async def test_page_is_served_under_its_own_names_alone(
    tmp_path: Path, host: str, status: int
) -> None:
    async with TestClient(TestServer(application(Runs(tmp_path)))) as client:
        for path in ("/", "/api/boards"):
            reply = await client.get(path, headers={"Host": host})
            assert reply.status == status


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.b", False)],
)
def test_address_that_others_reach_is_told_from_loopback(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own
