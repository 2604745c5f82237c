"""Spans on their way to a collector that is there, away, slow, or refuses."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from hetrl_core.job.spec import TracesSpec
from hetrl_core.task import Role
from hetrl_runtime.tracing.recording import (
    CLOSE_SECONDS,
    EXPORT_SECONDS,
    EXPORT_SPANS,
    QUEUE_SPANS,
    ExportingTracer,
)
from hetrl_runtime.tracing.span import UNTRACED, Tracer
from hetrl_runtime.tracing.tracer import tracer_of
from tests.runtime.launches import a_launch, free_port
from tests.runtime.tracing.collector import Seen, a_collector


@contextmanager
def a_tracer(endpoint: str) -> Iterator[Tracer]:
    tracer = ExportingTracer(TracesSpec(endpoint=endpoint), resource={"service.name": "hetrl-test"})
    try:
        yield tracer
    finally:
        tracer.close()


def test_spans_arrive_with_their_parents_moments_and_links() -> None:
    with a_collector() as collector:
        with a_tracer(collector.endpoint) as here, a_tracer(collector.endpoint) as there:
            root = here.root("group", {"hetrl.group": 3}, began_at=100.0)
            step = here.root("step")
            with there.under(root.traceparent).child("generate") as made:
                made.note({"tokens": 7})
                made.event("weights changed")
            root.link([step.traceparent, "", "not one"])
            root.child("too early", began_at=99.0).end(ended_at=101.5)
            step.end()
            root.end(ended_at=102.0)
        spans = {each.name: each for each in collector.spans}

    group, early = spans["group"], spans["too early"]
    assert (group.end_ns - group.start_ns) == pytest.approx(2e9, abs=1000)
    assert (group.parent_id, dict(group.attributes)) == ("", {"hetrl.group": 3})
    assert group.links == (spans["step"].span_id,)
    # No child begins before what it is a part of.
    assert early.start_ns == group.start_ns
    made_span: Seen = spans["generate"]
    assert (made_span.trace_id, made_span.parent_id) == (group.trace_id, group.span_id)
    assert made_span.events == ("weights changed",)
    assert not made_span.is_error


def test_failure_is_marked_and_cancellation_is_no_error() -> None:
    with a_collector() as collector:
        with a_tracer(collector.endpoint) as tracer:
            with pytest.raises(ValueError, match="no"), tracer.root("failed"):
                raise ValueError("no")
            with pytest.raises(KeyboardInterrupt), tracer.root("given up"):
                raise KeyboardInterrupt
        failed, given_up = collector.spans

    assert failed.is_error
    assert failed.attributes["error.type"] == "ValueError"
    assert not given_up.is_error
    assert given_up.attributes["hetrl.cancelled"]


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "nonsense",
        "00-00000000000000000000000000000000-0000000000000000-01",
        # Its sender does not trace it, so its parent would never come.
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ],
)
def test_call_without_a_traced_span_is_not_traced(traceparent: str) -> None:
    with a_tracer(f"http://127.0.0.1:{free_port()}") as tracer:
        assert tracer.under(traceparent) is UNTRACED


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hangs", "refuses", "is away"])
def test_collector_that_takes_nothing_costs_neither_time_nor_memory(kind: str) -> None:
    release = threading.Event()
    serving = {
        "hangs": a_collector(delay=release),
        "refuses": a_collector(status=503),
        "is away": nullcontext(None),
    }[kind]
    with serving as collector:
        endpoint = collector.endpoint if collector else f"http://127.0.0.1:{free_port()}"
        tracer = ExportingTracer(TracesSpec(endpoint=endpoint), resource={})
        began = time.monotonic()
        for number in range(QUEUE_SPANS + 4000):
            tracer.root("group", {"number": number}).end()
        recorded_in = time.monotonic() - began
        # As many as fit, and not one more; a request or two of them have been tried.
        waiting = len(tracer._processor._batch_processor._queue)
        assert QUEUE_SPANS - 2 * EXPORT_SPANS <= waiting <= QUEUE_SPANS

        began = time.monotonic()
        tracer.close()
        closed_in = time.monotonic() - began
        release.set()

    # Had each export been waited for, it would have been its time-out each time.
    assert recorded_in < (QUEUE_SPANS + 4000) / EXPORT_SPANS * EXPORT_SECONDS / 4
    assert closed_in < CLOSE_SECONDS + 10


def test_process_says_who_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setattr("socket.gethostname", lambda: "sums-rollout-l4-0-3")
    with a_collector() as collector:
        launch = a_launch(
            tmp_path, role=Role.ROLLOUT, traces=TracesSpec(endpoint=collector.endpoint + "/")
        )
        with tracer_of(launch, process="rollout-l4-0-3") as tracer:
            tracer.root("step").end()
        (span,) = collector.spans

    assert (
        span.resource.items()
        >= {
            "service.name": "hetrl-rollout",
            "service.namespace": "default",
            "service.instance.id": "rollout-l4-0-3",
            "k8s.pod.name": "sums-rollout-l4-0-3",
            "k8s.namespace.name": "default",
            "hetrl.job.name": "sums",
            "hetrl.job.uid": "0b1c",
            "hetrl.pod_set": "rollout-test",
        }.items()
    )
