"""The port that Prometheus scrapes and the kubelet probes.

``/healthz`` answers as long as the process does. ``/readyz`` refuses until the process says that
it can do its work. In a pod of several processes all must say so: a pod that still loads a model
must not count as one that generates.
"""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any, Self
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from hetrl_core.launch import Launch

log = logging.getLogger(__name__)

CONNECTION_SECONDS = 15.0
"""For a request and its response: each connection has one, and a thread until it ends."""

MAX_CONNECTIONS = 64
"""The oldest makes room for one more."""

_ASKING_SECONDS = 1.0
"""For another program of the pod to answer: the kubelet waits five."""


class MetricsServer:
    """A server of a registry on ``Launch.metrics_port``; use it as a context manager."""

    def __init__(self, registry: CollectorRegistry, launch: Launch) -> None:
        """Listen at once, and add series of the process: memory, time and start.

        Raises:
            OSError: the port is taken.
        """
        self._is_ready = threading.Event()
        self._is_pod_ready = False
        self._other_ports = launch.more_metrics_ports
        self._metrics: WSGIApplication = make_wsgi_app(registry)
        try:
            self._server = make_server(
                launch.listen_host,
                launch.metrics_port,
                self._answer,
                server_class=_LimitedServer,
                handler_class=_Silent,
            )
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot serve metrics on {launch.listen_host}:{launch.metrics_port}: "
                f"{error.strerror}",
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        ProcessCollector(registry=registry)
        log.info("serving metrics: port=%d", self.port)

    @property
    def port(self) -> int:
        """Where it listens; the system's choice where the contract says 0."""
        return int(self._server.server_port)

    def say_ready(self) -> None:
        """Answer readiness probes with success from now on."""
        self._is_ready.set()

    def _answer(self, asked: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        match asked["PATH_INFO"]:
            case "/healthz":
                return _text(start, "200 OK", "alive")
            case "/readyz" if self._all_are_ready():
                return _text(start, "200 OK", "ready")
            case "/readyz":
                return _text(start, "503 Service Unavailable", "still starting")
            case _:
                return self._metrics(asked, start)

    def _all_are_ready(self) -> bool:
        # Once: a program that fails later takes the pod with it, and one that ends well is done.
        if not self._is_pod_ready and self._is_ready.is_set():
            self._is_pod_ready = all(map(_says_ready, self._other_ports))
        return self._is_pod_ready

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _LimitedServer(ThreadingWSGIServer):
    """A server whose connections are few and end at a deadline, whatever a peer sends or not."""

    request_queue_size = 512

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lock = threading.Lock()
        self._open: dict[socket.socket, float] = {}
        """When each connection began, the oldest first."""

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; end the oldest connection where there are too many."""
        with self._lock:
            if len(self._open) >= MAX_CONNECTIONS:
                self._end(next(iter(self._open)))
            self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        """Forget a connection, and close it."""
        with self._lock:
            self._open.pop(request, None)
        super().close_request(request)

    def service_actions(self) -> None:
        """End connections at their deadline; called twice a second."""
        with self._lock:
            for each, began in tuple(self._open.items()):
                if time.monotonic() - began > CONNECTION_SECONDS:
                    self._end(each)

    def _end(self, connection: socket.socket) -> None:
        # Its thread wakes up, and closes it.
        del self._open[connection]
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


class _Silent(WSGIRequestHandler):
    """A handler that logs nothing: a line for every probe would bury what the process says."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base's name
        del format, args


def _says_ready(port: int) -> bool:
    """Ask another program of this pod."""
    asking = HTTPConnection("127.0.0.1", port, timeout=_ASKING_SECONDS)
    with contextlib.closing(asking):
        try:
            asking.request("GET", "/readyz")
            return asking.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False


def _text(start: StartResponse, status: str, text: str) -> Iterable[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]
