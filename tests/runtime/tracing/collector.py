"""A collector on loopback: takes OTLP over HTTP as a real one does, and keeps the spans."""

import gzip
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A span as it arrived."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]
    links: tuple[str, ...]
    """Ids of spans."""

    events: tuple[str, ...]
    is_error: bool

    @property
    def service(self) -> str:
        return str(self.resource["service.name"])


@dataclass
class Collector:
    """What came, in the order in which it came."""

    endpoint: str
    spans: list[Seen] = field(default_factory=list)
    num_requests: int = 0

    def named(self, name: str) -> list[Seen]:
        return [
            each for each in self.spans if each.name.partition(" ")[0] == name or each.name == name
        ]

    def children(self, parent: Seen) -> list[Seen]:
        found = [each for each in self.spans if each.parent_id == parent.span_id]
        return sorted(found, key=lambda each: each.start_ns)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            names = sorted({each.name for each in self.spans})
            assert time.monotonic() < deadline, f"it did not come; there are {names}"
            time.sleep(0.02)


@contextmanager
def a_collector(*, status: int = 200, delay: threading.Event | None = None) -> Iterator[Collector]:
    """Serve for as long as the block lasts.

    ``status`` is what every request is answered with; with ``delay`` none is before it is set.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.num_requests += 1
            if delay:
                delay.wait()
            if status == 200 and self.path == "/v1/traces":
                collector.spans += _spans(ExportTraceServiceRequest.FromString(body))
            try:
                self.send_response(status if self.path == "/v1/traces" else 404)
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(ExportTraceServiceResponse().SerializeToString())
            except OSError:
                pass  # It did not wait for us.

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(endpoint=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        if delay:
            delay.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _spans(request: ExportTraceServiceRequest) -> Iterator[Seen]:
    for group in request.resource_spans:
        resource = _values(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield Seen(
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    attributes=_values(span.attributes),
                    resource=resource,
                    links=tuple(each.span_id.hex() for each in span.links),
                    events=tuple(each.name for each in span.events),
                    is_error=span.status.code == 2,
                )


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)
