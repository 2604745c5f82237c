"""Responses to the page over HTTP, from folders of runs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from hetrl_cli.dashboard.server import application
from hetrl_cli.dashboard.sources.runs import Runs
from tests.dashboard.recorded import T0, Looks, a_run, a_series

STEP = a_series("hetrl_trainer_step", role="trainer")
CHOICE = {"board": "job", "namespace": "team", "hetrljob": "math-1"}
EDGES = ("0.0", "1.0", "4.0", "16.0", "+Inf")


def looks(*, since: float = 0.0) -> Looks:
    """Ten minutes of steps of a second; a quarter of the trajectories is fresh, no more is older
    than 4 versions."""
    shares = (0.25, 0.5, 1.0, 1.0, 1.0)
    return [
        (
            T0 + since + at,
            {STEP: at}
            | {
                a_series("hetrl_sample_staleness_versions_bucket", le=edge): 64 * at * share
                for edge, share in zip(EDGES, shares, strict=True)
            },
        )
        for at in range(0, 601, 5)
    ]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Any]:
    a_run(tmp_path / "math-1", looks())
    a_run(tmp_path / "demo" / "run", looks(since=3600))
    (tmp_path / "not-a-run").mkdir()
    async with TestClient(TestServer(application(Runs(tmp_path)))) as found:
        yield found


async def asked(client: Any, path: str, *, status: int = 200, **query: str) -> Any:
    async with client.get(path, params=query) as reply:
        assert reply.status == status, await reply.text()
        assert "default-src 'self'" in reply.headers["Content-Security-Policy"]
        return await reply.json()


async def test_runs_are_found_two_folders_deep_the_newest_first(client: Any) -> None:
    found = await asked(client, "/api/choices", board="job")

    assert [each["hetrljob"] for each in found] == ["demo/run", "math-1"]
    assert {each["namespace"] for each in found} == {"team"}


async def test_boards_of_jobs_alone_exist_without_a_cluster(client: Any) -> None:
    found = await asked(client, "/api/boards")

    assert [each["name"] for each in found["boards"]] == ["job", "fleet"]
    assert all(panel["says"] for row in found["boards"][0]["rows"] for panel in row["panels"])


async def test_whole_run_shows_everything_recorded(client: Any) -> None:
    found = await asked(client, "/api/figures", **CHOICE, seconds="all")

    assert found["begin"] == T0
    assert found["begin"] + found["step"] * (found["count"] - 1) == pytest.approx(T0 + 600)
    assert not found["isLive"]
    (line,) = found["panels"]["Step"]["lines"]
    assert line["values"][-1] == 600
    assert len(line["values"]) == found["count"]


async def test_span_ends_where_the_run_did(client: Any) -> None:
    found = await asked(client, "/api/figures", **CHOICE, seconds="120")

    assert found["begin"] == T0 + 480


async def test_heatmap_counts_what_fell_into_each_bucket(client: Any) -> None:
    found = await asked(client, "/api/figures", **CHOICE, seconds="all")
    heat = found["panels"]["Staleness of trained trajectories"]

    assert heat["buckets"] == ["0", "1", "2\N{EN DASH}4"]
    newest = [row[-1] for row in heat["cells"]]
    assert newest == pytest.approx([newest[0], newest[0], 2 * newest[0]], rel=1e-3)


@pytest.mark.parametrize(
    ("path", "query", "status", "said"),
    [
        ("/api/figures", {**CHOICE, "board": "jobs"}, 404, "no board 'jobs': there are job, fleet"),
        ("/api/figures", {**CHOICE, "seconds": "0"}, 400, "seconds: '0' is not between 1 and"),
        ("/api/figures", {**CHOICE, "seconds": "long"}, 400, "seconds: 'long'"),
        ("/api/figures", {**CHOICE, "hetrljob": "x"}, 502, "has no record of what was chosen"),
        ("/secret.html", {}, 404, "no secret.html here"),
        ("/command.py", {}, 404, "no command.py here"),
    ],
)
async def test_bad_questions_are_answered_in_words(
    client: Any, path: str, query: dict[str, str], status: int, said: str
) -> None:
    assert said in (await asked(client, path, status=status, **query))["error"]


@pytest.mark.parametrize("path", ["/%2e%2e/command.py", "/page/../../main.py", "/..%2fserver.py"])
async def test_server_serves_nothing_but_the_page(client: Any, path: str) -> None:
    async with client.get(path) as reply:
        assert reply.status == 404


async def test_page_names_nothing_of_elsewhere(client: Any) -> None:
    for name in (
        "",
        "style.css",
        "main.js",
        "panel.js",
        "chart.js",
        "heatmap.js",
        "svg.js",
        "format.js",
        "icon.svg",
    ):
        async with client.get(f"/{name}") as reply:
            text = (await reply.text()).replace("http://www.w3.org/2000/svg", "")
            assert reply.status == 200, name
            assert "http" not in text, name
