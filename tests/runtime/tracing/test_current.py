"""The current span of a thread or task, and blocks that are parts of it."""

import asyncio

import pytest

from hetrl_core.job.spec import TracesSpec
from hetrl_runtime.tracing.current import active, current_span, traced
from hetrl_runtime.tracing.recording import ExportingTracer
from hetrl_runtime.tracing.span import UNTRACED
from tests.runtime.tracing.collector import a_collector


@traced("outer")
def outer() -> str:
    current_span().note({"depth": 1})
    return inner()


@traced("inner")
def inner() -> str:
    return current_span().traceparent


async def concurrent() -> None:
    with traced("concurrent") as span:
        await asyncio.sleep(0)
        span.note({"noted": True})


@traced("failed")
def failed() -> None:
    raise OSError("no disk")


def test_traced_function_without_a_current_span_is_untraced() -> None:
    assert outer() == ""
    assert current_span() is UNTRACED


def test_traced_functions_are_children_of_the_current_span() -> None:
    async def gathered() -> None:
        await asyncio.gather(concurrent(), concurrent())

    with a_collector() as collector:
        tracer = ExportingTracer(TracesSpec(endpoint=collector.endpoint), resource={})
        with active(tracer.root("root")):
            assert outer()
            asyncio.run(gathered())
            with pytest.raises(OSError, match="no disk"):
                failed()
        tracer.close()
        spans = {each.name: each for each in collector.spans}
        parents = sorted((each.name, each.parent_id) for each in collector.spans)

    root = spans["root"].span_id
    assert parents == sorted(
        [
            ("root", ""),
            ("outer", root),
            ("inner", spans["outer"].span_id),
            ("concurrent", root),
            ("concurrent", root),
            ("failed", root),
        ]
    )
    assert spans["outer"].attributes["depth"] == 1
    assert spans["concurrent"].attributes["noted"] is True
    assert spans["failed"].is_error
    assert current_span() is UNTRACED
