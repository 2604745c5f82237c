"""The tracing interface of the other packages: spans with children, and a tracer that starts them.

These two record nothing: untraced runs and trajectories use them, at the price of a call.
``recording`` has those that record.
"""

from collections.abc import Iterable, Mapping
from typing import Self

Value = str | bool | int | float | tuple[str, ...]
Attributes = Mapping[str, Value]

NOTHING: Attributes = {}

TRACEPARENT = "traceparent"
"""Key of a span's name in the metadata of a call, as W3C has it."""


class Span:
    """A piece of work with a name, a beginning and an end; use it as a context manager, or end it.

    Moments are seconds of ``time.monotonic()``; unset: now.
    """

    traceparent = ""
    """W3C's name of this span, for another process to begin children of it; empty: untraced."""

    def child(
        self, name: str, attributes: Attributes = NOTHING, *, began_at: float | None = None
    ) -> "Span":
        """Begin a part of this work; not before the whole began."""
        del name, attributes, began_at
        return self

    def note(self, attributes: Attributes) -> None:
        """Add what is known by now."""

    def event(self, name: str, attributes: Attributes = NOTHING) -> None:
        """Tell of something that took no time."""

    def link(self, traceparents: Iterable[str], attributes: Attributes = NOTHING) -> None:
        """Name spans of other traces that belong to this one; empty names are left out."""

    def end(self, *, ended_at: float | None = None) -> None:
        """End it; once is enough."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.end()


class Tracer:
    """Begins spans, in one process."""

    sample_ratio = 0.0
    """Share of groups to trace."""

    def root(
        self, name: str, attributes: Attributes = NOTHING, *, began_at: float | None = None
    ) -> Span:
        """Begin a trace."""
        del name, attributes, began_at
        return UNTRACED

    def under(self, traceparent: str) -> Span:
        """Return a span of another process, to begin children of; untraced where it names none."""
        del traceparent
        return UNTRACED

    def close(self) -> None:
        """Send what is left, within a deadline."""


UNTRACED = Span()
NO_TRACER = Tracer()
