"""The operator's board over a real Prometheus that scrapes an operator at work."""

import time
from collections.abc import AsyncIterator, Iterator

import pytest

from e2e.cluster.cluster import Cluster
from e2e.prometheus import SCRAPE_SECONDS, serving
from hetrl_cli.dashboard.boards.operator import OPERATOR_BOARD
from hetrl_cli.dashboard.sources.prometheus import Prometheus
from hetrl_cli.dashboard.sources.source import Span
from tests.controller.operator_process import (
    Namespace,
    OperatorProcess,
    a_job,
    cluster_with_crds,
    operator_on,
)

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

CHOICE = {"namespace": "hetrl-system", "pod": "hetrl-0"}
TIMEOUT_SECONDS = 240.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_with_crds("board", num_nodes=3) as found:
        yield found


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    with operator_on(cluster, tmp_path_factory.mktemp("operator")) as found:
        yield found


@pytest.fixture
async def prometheus(
    operator: OperatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Prometheus]:
    """Scrapes as the chart's PodMonitor says, with the labels that it would give."""
    scrape = {
        "job_name": "hetrl",
        "honor_labels": True,
        "static_configs": [{"targets": [f"localhost:{operator.metrics_port}"], "labels": CHOICE}],
    }
    with serving({"scrape_configs": [scrape]}, tmp_path_factory.mktemp("prometheus")) as port:
        found = Prometheus(f"http://127.0.0.1:{port}", scrape_seconds=SCRAPE_SECONDS)
        yield found
        await found.close()


async def test_panels_of_the_operator_have_data(space: Namespace, prometheus: Prometheus) -> None:
    ends_at = time.monotonic() + TIMEOUT_SECONDS
    while not await prometheus.choices(OPERATOR_BOARD):
        assert time.monotonic() < ends_at, "the operator is not scraped"
        time.sleep(0.5)
    assert await prometheus.choices(OPERATOR_BOARD) == [CHOICE]
    # After the first scrape: a plan and a start are seen as what was added to counters.
    space.apply(a_job())
    space.wait_for_phase("Running")

    silent = {panel.title for panel in OPERATOR_BOARD.panels}
    while silent:
        assert time.monotonic() < ends_at, f"no data: {sorted(silent)}"
        time.sleep(1.0)
        silent = await without_data(prometheus)


async def without_data(prometheus: Prometheus) -> set[str]:
    now = time.time()
    span = Span(begin=now - 120, end=now, step_seconds=2.0)
    curves = [(panel.title, curve) for panel in OPERATOR_BOARD.panels for curve in panel.curves]
    answers = await prometheus.ask(
        [curve.expression for _, curve in curves], OPERATOR_BOARD.chosen(CHOICE), span
    )
    return {title for (title, _), lines in zip(curves, answers, strict=True) if not lines}
