"""Readiness of a worker: its model is loaded, whichever other processes run."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import pytest

from hetrl_core.job.spec import Engine, ModelFiles
from hetrl_core.task import Role
from hetrl_runtime.rollout import worker
from hetrl_runtime.rollout.engine import EngineSettings, InferenceEngine
from hetrl_runtime.rollout.engines import open_engine
from tests.runtime.launches import a_launch, free_port
from tests.runtime.rollout.models import save_tiny_qwen3

pytestmark = pytest.mark.slow


def status_of(port: int, path: str) -> int:
    asking = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        asking.request("GET", path)
        return asking.getresponse().status
    except ConnectionRefusedError:
        return 0
    finally:
        asking.close()


async def until_it_answers(port: int, path: str, status: int) -> None:
    async with asyncio.timeout(240):
        while await asyncio.to_thread(status_of, port, path) != status:
            await asyncio.sleep(0.05)


async def test_worker_is_alive_while_loading_and_ready_once_it_generates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_load = asyncio.Event()

    def held(kind: Engine, settings: EngineSettings) -> InferenceEngine:
        engine = open_engine(kind, settings)
        load = engine.start

        async def start() -> None:
            await may_load.wait()
            await load()

        monkeypatch.setattr(engine, "start", start)
        return engine

    monkeypatch.setattr(worker, "open_engine", held)
    port = free_port()
    model = ModelFiles(source=str(save_tiny_qwen3(tmp_path / "model", seed=1)))
    launch = replace(a_launch(tmp_path, role=Role.ROLLOUT, model=model), metrics_port=port)

    # No coordinator listens: a worker that waited for one would never be ready.
    working = asyncio.create_task(worker.work(launch, ordinal=0))
    await until_it_answers(port, "/healthz", 200)
    assert await asyncio.to_thread(status_of, port, "/readyz") == 503
    may_load.set()
    await until_it_answers(port, "/readyz", 200)

    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
