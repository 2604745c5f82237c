"""The port that Prometheus scrapes."""

import logging
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

from hetrl_core.launch import Launch

log = logging.getLogger(__name__)


class MetricsServer:
    """Serves a registry on ``Launch.metrics_port`` from a thread; use it as a context manager."""

    def __init__(self, registry: CollectorRegistry, launch: Launch) -> None:
        """Listen at once, and show the process's own memory, time and start beside its series.

        Raises:
            OSError: the port is taken.
        """
        try:
            self._server, self._thread = start_http_server(
                launch.metrics_port, addr=launch.listen_host, registry=registry
            )
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot serve metrics on {launch.listen_host}:{launch.metrics_port}: "
                f"{error.strerror}",
            ) from error
        ProcessCollector(registry=registry)
        log.info("serving metrics: port=%d", self.port)

    @property
    def port(self) -> int:
        """Where it listens; the system's choice where the contract says 0."""
        return int(self._server.server_port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
