"""Reports to the operator, against a real HTTPS server."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from hetrl_core.launch import JobIdentity, ProgressTarget, TlsFiles
from hetrl_runtime.coordinator.reporting.progress_post import ProgressPost
from tests.runtime.certificates import Authority

JOB = JobIdentity(namespace="default", name="sums", uid="0b1c")


@contextlib.asynccontextmanager
async def an_operator(tls: TlsFiles, took: list[tuple[str, Any]]) -> AsyncIterator[str]:
    """Serve an endpoint that takes reports with the token ``good``; yields its URL."""

    async def take(request: web.Request) -> web.Response:
        authorization = request.headers.get("Authorization", "")
        took.append((authorization, await request.json()))
        return web.Response(status=204 if authorization == "Bearer good" else 401)

    application = web.Application()
    application.router.add_post("/progress", take)
    runner = web.AppRunner(application)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tls.certificate, tls.key)
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}/progress"
    finally:
        await runner.cleanup()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("good\n")
    return path


async def test_report_carries_the_job_the_figures_and_the_token(
    tmp_path: Path, token_file: Path
) -> None:
    authority = Authority(tmp_path / "ours")
    took: list[tuple[str, Any]] = []

    async with an_operator(authority.leaf("operator"), took) as url:
        target = ProgressTarget(url=url, token_file=str(token_file), ca_file=str(authority.ca))
        post = ProgressPost(target, JOB)
        assert post.wait_seconds == 0.0

        assert await post.post({"step": "3"})

    job = {"namespace": "default", "name": "sums", "uid": "0b1c"}
    assert took == [("Bearer good", {"job": job, "step": "3"})]
    assert 14.0 < post.wait_seconds <= 15.0


async def test_report_of_too_many_processes_names_none(tmp_path: Path, token_file: Path) -> None:
    authority = Authority(tmp_path / "ours")
    took: list[tuple[str, Any]] = []
    processes = [{"process": f"rollout-{'x' * 100}-{number}"} for number in range(4000)]

    async with an_operator(authority.leaf("operator"), took) as url:
        target = ProgressTarget(url=url, token_file=str(token_file), ca_file=str(authority.ca))
        for count in (1000, 4000):
            await ProgressPost(target, JOB).post({"processes": processes[:count]})

    assert [len(said["processes"]) for _, said in took] == [1000, 0]


async def test_token_is_read_for_every_post(tmp_path: Path, token_file: Path) -> None:
    authority = Authority(tmp_path / "ours")
    took: list[tuple[str, Any]] = []

    async with an_operator(authority.leaf("operator"), took) as url:
        target = ProgressTarget(url=url, token_file=str(token_file), ca_file=str(authority.ca))
        post = ProgressPost(target, JOB)
        token_file.write_text("expired")
        refused = await post.post({})
        token_file.write_text("good")
        taken = await post.post({})

    assert (refused, taken) == (False, True)


async def test_operator_of_another_authority_hears_nothing(
    tmp_path: Path, token_file: Path
) -> None:
    took: list[tuple[str, Any]] = []

    async with an_operator(Authority(tmp_path / "theirs").leaf("operator"), took) as url:
        ours = Authority(tmp_path / "ours").ca
        target = ProgressTarget(url=url, token_file=str(token_file), ca_file=str(ours))

        assert not await ProgressPost(target, JOB).post({})

    assert took == []


@pytest.mark.parametrize("missing", ["token", "authority", "operator"])
async def test_unsent_report_is_no_error(tmp_path: Path, token_file: Path, missing: str) -> None:
    authority = Authority(tmp_path / "ours")
    target = ProgressTarget(
        url="https://127.0.0.1:9/progress",
        token_file=str(tmp_path / "nowhere" if missing == "token" else token_file),
        ca_file=str(tmp_path / "nowhere" if missing == "authority" else authority.ca),
    )

    assert not await ProgressPost(target, JOB).post({})
