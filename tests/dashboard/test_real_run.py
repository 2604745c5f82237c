"""A run of `hetrl run`, scraped by a real Prometheus: every panel of a job and its fleet has data.

The operator's board, and the same from pods, are e2e's: no operator takes part here.
"""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from e2e.cluster.packages import PROMETHEUS_PACKAGES, require_packages
from e2e.prometheus import SCRAPE_SECONDS, serving
from hetrl_cli.dashboard.boards.all import BOARDS
from hetrl_cli.dashboard.boards.panel import Board
from hetrl_cli.dashboard.sources.prometheus import Prometheus
from hetrl_cli.dashboard.sources.runs import Runs
from hetrl_cli.dashboard.sources.source import Source, Span
from hetrl_cli.run.setup.folder import RunFolder
from hetrl_core.task import Task
from hetrl_operator.http.metrics import Metrics
from hetrl_runtime.tiny.dataset import write_dataset
from hetrl_runtime.tiny.model import make_model
from hetrl_runtime.tiny.task import Split
from hetrl_runtime.tiny.warm_up import WarmUp
from tests.chart.rendering import ROOT
from tests.cli.plans import write_plan
from tests.dashboard.browser import chromium
from tests.dashboard.serving import dashboard

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

HETRL = Path(sys.executable).with_name("hetrl")
TIMEOUT_SECONDS = 600.0

EACH_APART = (
    frozenset({Task.ACTOR_GENERATION}),
    frozenset({Task.REFERENCE_INFERENCE}),
    frozenset({Task.ACTOR_TRAINING}),
)


@dataclass(frozen=True, slots=True)
class Scraped:
    """A run that goes on, and the Prometheus that scrapes it."""

    folder: RunFolder
    process: "subprocess.Popen[bytes]"
    prometheus: str

    @property
    def step(self) -> int:
        file = self.folder.state("coordinator-0") / "progress.json"
        return int(json.loads(file.read_text())["step"]) if file.exists() else 0

    @property
    def log(self) -> str:
        return (self.folder.path.parent / "run.log").read_text()[-3000:]


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    folder = tmp_path_factory.mktemp("real")
    make_model(folder / "model", seed=1, schedule=WarmUp(steps=200))
    write_dataset(folder / "train.jsonl", count=500, seed=1, split=Split.TRAIN)
    job = yaml.safe_load((ROOT / "examples" / "arithmetic.yaml").read_text())
    job["spec"]["algorithm"] |= {"globalBatchSize": 64, "klCoefficient": 0.1}
    # A third of the responses is right, and so it stays: ten steps without a difference in rewards
    # would end the run, be the model hopeless or perfect.
    job["spec"]["training"] |= {
        "steps": 100_000,
        "checkpointEverySteps": 3,
        "learningRate": 1e-8,
    }
    # Two rewards: the parts of a sum have a panel of their own.
    del job["spec"]["data"]["reward"]
    job["spec"]["data"]["rewards"] = [
        {"name": "right", "reward": "exact"},
        {"name": "digits", "reward": "regex", "regex": {"pattern": "[0-9]"}, "weight": 0.1},
    ]
    # Whatever a planner would choose: panels of inference workers are checked as well.
    del job["spec"]["resources"], job["spec"]["rollout"]
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    plan = write_plan(folder, EACH_APART, num_layers=3)
    scrape = {
        "job_name": "runs",
        "file_sd_configs": [
            {"files": [str(folder / "math" / "targets.json")], "refresh_interval": "1s"}
        ],
    }
    with (folder / "run.log").open("wb") as log:
        process = subprocess.Popen(
            [
                HETRL,
                "run",
                folder / "job.yaml",
                "--no-display",
                "--out",
                folder / "math",
                "--claim",
                f"arithmetic={folder}",
                *plan,
            ],
            stdout=log,
            stderr=log,
        )
    (folder / "prometheus").mkdir()
    try:
        with serving({"scrape_configs": [scrape]}, folder / "prometheus") as port:
            yield Scraped(RunFolder(path=folder / "math"), process, f"http://127.0.0.1:{port}")
    finally:
        # Not asked to stop: that would draw a report first. Its cleanup ends the others.
        process.kill()
        process.wait(timeout=60)
        wait_for_silence(RunFolder(path=folder / "math"))


def wait_for_silence(folder: RunFolder) -> None:
    ends_at = time.monotonic() + 60
    for target in json.loads(folder.targets_file.read_text()):
        while is_served(target["targets"][0]):
            assert time.monotonic() < ends_at, f"{target} is still served"
            time.sleep(0.2)


def is_served(target: str) -> bool:
    host, _, port = target.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        # Reset, or no answer: by a process that is just dying.
        pass
    return True


@pytest.fixture
async def prometheus(scraped: Scraped) -> AsyncIterator[Prometheus]:
    found = Prometheus(scraped.prometheus, scrape_seconds=SCRAPE_SECONDS)
    yield found
    await found.close()


async def silent(source: Source, board: Board, choice: dict[str, str]) -> list[str]:
    """Return the curves that had no value in the last minute."""
    now = time.time()
    span = Span(begin=now - 60, end=now, step_seconds=2.0)
    asked = [(panel.title, curve) for panel in board.panels for curve in panel.curves]
    answers = await source.ask([curve.expression for _, curve in asked], board.chosen(choice), span)
    return [
        f"{title}: {curve.legend}"
        for (title, curve), lines in zip(asked, answers, strict=True)
        if not lines
    ]


@pytest.mark.parametrize("board", BOARDS[:2], ids=lambda board: board.name)
async def test_queries_have_data_in_prometheus_and_in_the_recording(
    board: Board, scraped: Scraped, prometheus: Prometheus
) -> None:
    ends_at = time.monotonic() + TIMEOUT_SECONDS
    runs = Runs(scraped.folder.path)
    missing = ["everything"]
    while missing:
        assert scraped.process.poll() is None, scraped.log
        assert time.monotonic() < ends_at, (missing, scraped.log)
        time.sleep(1.0)
        if scraped.step < 8:
            continue
        await runs.choices(board)
        missing = [
            *await silent(prometheus, board, {"namespace": "default", "hetrljob": "arithmetic"}),
            *await silent(runs, board, {"namespace": "default", "hetrljob": "math"}),
        ]


async def test_choices_are_what_runs(scraped: Scraped, prometheus: Prometheus) -> None:
    assert scraped.step
    for board in BOARDS[:2]:
        assert await prometheus.choices(board) == [
            {"namespace": "default", "hetrljob": "arithmetic"}
        ]


@pytest.mark.parametrize("source", ["folder", "prometheus"])
async def test_page_draws_every_panel_of_it_live(
    source: str, scraped: Scraped, tmp_path: Path
) -> None:
    asked = [str(scraped.folder.path)]
    if source == "prometheus":
        asked = [f"--prometheus={scraped.prometheus}", f"--scrape-seconds={SCRAPE_SECONDS}"]
    with dashboard(*asked) as address:
        async with chromium(tmp_path) as page:
            await page.open(f"{address}/#board=job&span=300")
            await page.wait("document.querySelector('#news.live')?.innerText")
            assert await page.wait(
                "[...document.querySelectorAll('.panel')].length > 20"
                " && !document.querySelector('.panel .none')"
            )
            before = await page.ask("document.querySelector('#news').innerText")
            assert await page.wait(f"document.querySelector('#news').innerText !== '{before}'")
            assert page.troubles == []


def test_promtool_finds_nothing_to_say_against_the_metrics(scraped: Scraped) -> None:
    require_packages(PROMETHEUS_PACKAGES)
    targets = json.loads(scraped.folder.targets_file.read_text())
    for target in targets:
        metrics = metrics_of(target["targets"][0], scraped)
        assert said_of(metrics) == "", target["labels"]
    assert len(targets) == 5, targets


def test_operator_metrics_pass_promtool() -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    assert said_of(generate_latest(registry)) == ""


def metrics_of(target: str, scraped: Scraped) -> bytes:
    """Ask a process for its metrics until it answers: it may just have restarted."""
    ends_at, trouble = time.monotonic() + TIMEOUT_SECONDS, ""
    while time.monotonic() < ends_at:
        assert scraped.process.poll() is None, scraped.log
        try:
            with urllib.request.urlopen(f"http://{target}/metrics", timeout=60) as reply:
                return bytes(reply.read())
        except OSError as error:
            trouble = str(error)
            time.sleep(0.2)
    raise AssertionError((target, trouble, scraped.log))


def said_of(metrics: bytes) -> str:
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=metrics,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return (done.stdout + done.stderr).decode()
