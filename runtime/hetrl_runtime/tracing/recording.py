"""Spans that are recorded and sent: OpenTelemetry's SDK behind ``span``'s two classes.

Nothing here waits for the collector: spans go into a bounded queue that a thread of the SDK
empties, and what does not fit is lost.
"""

import time
from collections.abc import Iterable, Mapping

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace import Span as SdkSpan
from opentelemetry.trace import Tracer as SdkTracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from hetrl_core.job.spec import TracesSpec
from hetrl_runtime.tracing.span import NOTHING, TRACEPARENT, UNTRACED, Attributes, Span, Tracer

PATH = "/v1/traces"

QUEUE_SPANS = 16_384
"""Some 30 MB when it is full: a batch of a thousand trajectories ends several thousand at once."""

EXPORT_SPANS = 512
EXPORT_SECONDS = 5.0
"""For the collector to take one request."""

DELAY_SECONDS = 1.0
"""Longest that a span waits for others to be sent with."""

CLOSE_SECONDS = 3.0
"""For what is left at the end: well below what a stopped pod is given."""

MOST_LINKS = 8192
"""Of a step: one for each traced trajectory of its batch."""

_PROPAGATOR: TextMapPropagator = TraceContextTextMapPropagator()
_NO_CONTEXT = Context()


class ExportingTracer(Tracer):
    """A tracer that sends its spans to a collector."""

    def __init__(self, spec: TracesSpec, *, resource: Mapping[str, str]) -> None:
        """Start the thread that sends.

        Args:
            spec: where to.
            resource: who we are, in OpenTelemetry's names.
        """
        self.sample_ratio = spec.sample_ratio
        exporter = OTLPSpanExporter(
            endpoint=spec.endpoint.rstrip("/") + PATH, timeout=EXPORT_SECONDS
        )
        self._processor = _DeadlineProcessor(
            exporter,
            max_queue_size=QUEUE_SPANS,
            schedule_delay_millis=DELAY_SECONDS * 1e3,
            max_export_batch_size=EXPORT_SPANS,
        )
        # Which groups are traced is decided by their ids; whatever is begun is to be sent.
        provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create(dict(resource)),
            span_limits=SpanLimits(max_links=MOST_LINKS),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("hetrl")

    def root(
        self, name: str, attributes: Attributes = NOTHING, *, began_at: float | None = None
    ) -> Span:
        """See ``Tracer``."""
        clock = _Clock()
        started = time.monotonic() if began_at is None else began_at
        begun = self._tracer.start_span(
            name, context=_NO_CONTEXT, attributes=attributes, start_time=clock.ns(started)
        )
        return RecordedSpan(begun, self._tracer, clock, began_at=started)

    def under(self, traceparent: str) -> Span:
        """See ``Tracer``."""
        found = _parsed(traceparent) if traceparent else None
        if found is None:
            return UNTRACED
        return RecordedSpan(NonRecordingSpan(found), self._tracer, _Clock(), began_at=None)

    def close(self) -> None:
        """See ``Tracer``."""
        self._processor.shutdown()


class RecordedSpan(Span):
    """A span of our own, or the place of another process's."""

    def __init__(
        self, span: SdkSpan, tracer: SdkTracer, clock: "_Clock", *, began_at: float | None
    ) -> None:
        self._span = span
        self._tracer = tracer
        self._clock = clock
        self._began_at = began_at

    @property
    def traceparent(self) -> str:  # type: ignore[override]  # computed here, a constant there
        """See ``Span``."""
        found = self._span.get_span_context()
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-01" if found.is_valid else ""

    def child(
        self, name: str, attributes: Attributes = NOTHING, *, began_at: float | None = None
    ) -> Span:
        """See ``Span``."""
        started = time.monotonic() if began_at is None else began_at
        if self._began_at is not None:
            started = max(started, self._began_at)
        begun = self._tracer.start_span(
            name,
            # Made where it is needed: most spans are leaves.
            context=set_span_in_context(self._span, _NO_CONTEXT),
            attributes=attributes,
            start_time=self._clock.ns(started),
        )
        return RecordedSpan(begun, self._tracer, self._clock, began_at=started)

    def note(self, attributes: Attributes) -> None:
        """See ``Span``."""
        if self._span.is_recording():
            self._span.set_attributes(attributes)

    def event(self, name: str, attributes: Attributes = NOTHING) -> None:
        """See ``Span``."""
        if self._span.is_recording():
            self._span.add_event(name, attributes, self._clock.ns(time.monotonic()))

    def link(self, traceparents: Iterable[str], attributes: Attributes = NOTHING) -> None:
        """See ``Span``."""
        for each in traceparents:
            if self._span.is_recording() and (found := _parsed(each)):
                self._span.add_link(found, attributes)

    def end(self, *, ended_at: float | None = None) -> None:
        """See ``Span``."""
        if self._span.is_recording():
            self._span.end(self._clock.ns(time.monotonic() if ended_at is None else ended_at))

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            self._span.set_status(Status(StatusCode.ERROR, str(error)[:200]))
            self.note({"error.type": type(error).__name__})
        elif error is not None:
            # Its result is no longer wanted; that is no error.
            self.note({"hetrl.cancelled": True})
        self.end()


class _Clock:
    """A conversion of monotonic seconds to the time of day, alike for all spans of one tree.

    Both clocks are read for each tree: over days they drift apart.
    """

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def ns(self, moment: float) -> int:
        return self._offset_ns + round(moment * 1e9)


class _DeadlineProcessor(BatchSpanProcessor):
    """The SDK's, but that its end comes sooner than after half a minute."""

    def shutdown(self) -> None:
        self._batch_processor.shutdown(timeout_millis=round(CLOSE_SECONDS * 1e3))


def _parsed(traceparent: str) -> SpanContext | None:
    context = _PROPAGATOR.extract({TRACEPARENT: traceparent}, _NO_CONTEXT)
    found = get_current_span(context).get_span_context()
    return found if found.is_valid and found.trace_flags.sampled else None
