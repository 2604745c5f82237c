"""The metrics port, over real sockets."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, Gauge

from hetrl_runtime.metrics.server import MAX_CONNECTIONS, MetricsServer
from tests.runtime.launches import a_launch, free_port


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MetricsServer]:
    registry = CollectorRegistry()
    Gauge("hetrl_trainer_step", "Steps done.", registry=registry).set(7)
    with MetricsServer(registry, a_launch(tmp_path)) as served:
        yield served


def answer(server: MetricsServer, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=30) as found:
            return found.status, found.read().decode()
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def test_process_lives_from_the_start_and_reports_readiness(
    server: MetricsServer,
) -> None:
    assert answer(server, "/healthz") == (200, "alive\n")
    assert answer(server, "/readyz") == (503, "still starting\n")

    server.say_ready()

    assert answer(server, "/readyz") == (200, "ready\n")
    assert answer(server, "/healthz") == (200, "alive\n")


def test_pod_is_ready_with_all_programs_and_stays_so(
    tmp_path: Path,
) -> None:
    launch, port = a_launch(tmp_path), free_port()
    with MetricsServer(CollectorRegistry(), replace(launch, more_metrics_ports=(port,))) as first:
        first.say_ready()
        assert answer(first, "/readyz")[0] == 503, "the other program is not ready"

        with MetricsServer(CollectorRegistry(), replace(launch, metrics_port=port)) as beside:
            assert answer(first, "/readyz")[0] == 503
            beside.say_ready()
            assert answer(first, "/readyz")[0] == 200

        assert answer(first, "/readyz")[0] == 200


def test_series_are_there_before_it_is_ready(server: MetricsServer) -> None:
    status, text = answer(server, "/metrics")

    assert status == 200
    assert "hetrl_trainer_step 7.0" in text
    assert "process_resident_memory_bytes" in text


def test_silent_connections_keep_no_scrape_waiting(server: MetricsServer) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            silent = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            stack.enter_context(silent)
            with contextlib.suppress(OSError):
                silent.sendall(b"GET /met")
        assert answer(server, "/healthz") == (200, "alive\n")
        threads = [each for each in threading.enumerate() if "process_request" in each.name]
        assert len(threads) <= MAX_CONNECTIONS + 1


def test_connection_ends_at_its_deadline(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hetrl_runtime.metrics.server.CONNECTION_SECONDS", 0.1)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as silent:
        silent.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        assert silent.recv(100) == b""


def test_port_that_is_taken_is_named(server: MetricsServer, tmp_path: Path) -> None:
    launch = replace(a_launch(tmp_path), metrics_port=server.port)

    with pytest.raises(OSError, match=f"cannot serve metrics on 127.0.0.1:{server.port}: "):
        MetricsServer(CollectorRegistry(), launch)
