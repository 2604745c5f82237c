"""The current span of a thread or task, and a decorator for functions that are parts of it.

As in OpenTelemetry, the current span is a context variable: a new task inherits it.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from hetrl_runtime.tracing.span import UNTRACED, Span

P = ParamSpec("P")
R = TypeVar("R")

_CURRENT: ContextVar[Span] = ContextVar("hetrl-current-span", default=UNTRACED)


def current_span() -> Span:
    """Return the span of the work that is under way here; untraced outside of any."""
    return _CURRENT.get()


@contextmanager
def active(span: Span) -> Iterator[None]:
    """Make a span the current one in a block, and end it with the block."""
    token = _CURRENT.set(span)
    try:
        with span:
            yield
    finally:
        _CURRENT.reset(token)


def traced(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function or coroutine function: each call is a child of the current span."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def traced_coroutine(*args: P.args, **kwargs: P.kwargs) -> Any:
                with active(current_span().child(name)):
                    return await function(*args, **kwargs)

            return cast("Callable[P, R]", traced_coroutine)

        @wraps(function)
        def traced_function(*args: P.args, **kwargs: P.kwargs) -> R:
            with active(current_span().child(name)):
                return function(*args, **kwargs)

        return traced_function

    return decorate
