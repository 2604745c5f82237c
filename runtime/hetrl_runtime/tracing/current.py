"""The current span of a thread or task, and blocks that are parts of it.

As in OpenTelemetry, the current span is a context variable: a new task inherits it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hetrl_runtime.tracing.span import UNTRACED, Span

_CURRENT: ContextVar[Span] = ContextVar("hetrl-current-span", default=UNTRACED)


def current_span() -> Span:
    """Return the span of the work that is under way here; untraced outside of any."""
    return _CURRENT.get()


@contextmanager
def active(span: Span) -> Iterator[Span]:
    """Make a span the current one in a block, and end it with the block."""
    token = _CURRENT.set(span)
    try:
        with span:
            yield span
    finally:
        _CURRENT.reset(token)


@contextmanager
def traced(name: str) -> Iterator[Span]:
    """Begin a child of the current span for a block; it also decorates functions."""
    with active(current_span().child(name)) as span:
        yield span
