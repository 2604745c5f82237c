"""Recording of processes' series by `hetrl run`, from real ports."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge, start_http_server

from hetrl_cli.run.metrics.recording import Recording
from hetrl_cli.run.metrics.scrape import Target, read_targets, recorded, write_targets
from hetrl_cli.run.setup.folder import RunFolder, begin
from hetrl_cli.run.setup.ports import free_ports
from tests.controller.values import a_plan

JOB = {"namespace": "default", "hetrljob": "math"}


@contextmanager
def a_process(port: int, *, step: float) -> Iterator[None]:
    registry = CollectorRegistry()
    Gauge("hetrl_trainer_step", "Steps done.", registry=registry).set(step)
    server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)
    yield
    server.shutdown()
    server.server_close()
    thread.join()


def a_folder(path: Path) -> tuple[RunFolder, int]:
    """A run with a trainer and, never started, a rollout."""
    folder = RunFolder(path=path)
    begin(folder, namespace="default", name="math")
    trainer, rollout, own = free_ports(3)
    write_targets(
        folder,
        (
            Target(address=f"127.0.0.1:{trainer}", labels=JOB | {"pod": "t-0", "role": "trainer"}),
            Target(address=f"127.0.0.1:{rollout}", labels=JOB | {"pod": "r-0", "role": "rollout"}),
            Target(address=f"127.0.0.1:{own}", labels=JOB),
        ),
    )
    return folder, trainer


def read(folder: RunFolder) -> Callable[..., list[float]]:
    recording = Recording(folder.metrics_file)
    recording.follow()

    def values(name: str, **labels: str) -> list[float]:
        return [
            value
            for track in recording.tracks.values()
            if track.name == name and labels.items() <= track.labels.items()
            for value in track.values
        ]

    return values


def test_targets_are_listed_as_prometheus_reads_them(tmp_path: Path) -> None:
    folder, port = a_folder(tmp_path)

    listed = json.loads(folder.targets_file.read_text())

    assert listed[0] == {
        "targets": [f"127.0.0.1:{port}"],
        "labels": JOB | {"pod": "t-0", "role": "trainer"},
    }
    assert read_targets(folder)[0].port == port


@pytest.mark.slow
async def test_series_of_processes_and_job_keep_their_labels(
    tmp_path: Path,
) -> None:
    folder, port = a_folder(tmp_path)
    with a_process(port, step=7):
        async with recorded(folder, folder.identity(), a_plan()) as series:
            for _ in range(600):
                if 1.0 in read(folder)("hetrl_job_pods", role="trainer", state="ready"):
                    break
                await asyncio.sleep(0.1)
            series.phase = "Succeeded"

    values = read(folder)
    assert set(values("hetrl_trainer_step", **JOB, pod="t-0")) == {7}
    assert values("hetrl_job_pods", role="trainer", state="ready")[-1] == 0  # at the very end
    assert set(values("hetrl_job_pods", role="rollout", state="ready")) == {0}
    assert set(values("hetrl_job_gpus", role="rollout", pool="L4")) == {2}
    assert values("hetrl_job_phase", phase="Succeeded") == [1]
    assert not [each for each in folder.metrics_file.read_text().split() if "_created" in each]


@pytest.mark.slow
async def test_record_that_cannot_be_written_is_said_and_ends_nothing(tmp_path: Path) -> None:
    folder, port = a_folder(tmp_path)
    with a_process(port, step=7):
        async with recorded(folder, folder.identity(), a_plan()) as series:
            folder.metrics_file.unlink()
            folder.metrics_file.mkdir()
            await asyncio.sleep(1.5)

    assert "metrics.jsonl" in series.trouble
