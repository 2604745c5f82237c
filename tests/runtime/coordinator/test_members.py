"""Registered processes: their rates, and which of them others may ask."""

from typing import Any

import pytest

from hetrl_core.task import Role, Task
from hetrl_runtime.coordinator.rules.members import Member, Members
from hetrl_runtime.wire.values import InferenceEndpoint, ProcessStatus


def member(process: str, *, role: Role = Role.ROLLOUT, seen_at: float, **fields: Any) -> Member:
    return Member(
        process=process,
        role=role,
        pod_set=f"{role}-l4",
        instance=f"start of {process}",
        seen_at=seen_at,
        **fields,
    )


def members(*found: Member) -> Members:
    everyone = Members()
    for each in found:
        everyone.enter(each)
    return everyone


def scoring(process: str, *tasks: str, seen_at: float) -> Member:
    endpoint = InferenceEndpoint(address=f"{process}:1", tasks=tasks)
    return member(process, role=Role.INFERENCE, seen_at=seen_at, inference=endpoint)


@pytest.mark.parametrize(
    ("heard", "rate", "idle_ratio"),
    [
        pytest.param([], 0.0, 0.0, id="nothing yet"),
        pytest.param([(10.0, 500, 1.0, 3.0)], 0.0, 0.0, id="one heartbeat"),
        pytest.param(
            [(10.0, 500, 1.0, 3.0), (14.0, 900, 2.0, 6.0)], 100.0, 0.25, id="two heartbeats"
        ),
    ],
)
def test_rates_are_those_between_heartbeats(
    heard: list[tuple[float, int, float, float]], rate: float, idle_ratio: float
) -> None:
    worker = member("rollout-0", seen_at=0.0)
    for now, tokens, idle_seconds, busy_seconds in heard:
        status = ProcessStatus(
            generated_tokens=tokens, idle_seconds=idle_seconds, busy_seconds=busy_seconds
        )
        worker.hear(status, now=now)

    assert worker.tokens_per_second == pytest.approx(rate)
    assert worker.idle_ratio == pytest.approx(idle_ratio)


@pytest.mark.parametrize(
    ("process", "since", "address"),
    [
        pytest.param("eu-1", 5.0, "eu-0:9", id="the first of the region"),
        pytest.param("eu-1", 5.1, "", id="the first of the region is silent"),
        pytest.param("eu-2", 5.1, "eu-1:9", id="the next one takes its place"),
        pytest.param("eu-0", 5.0, "", id="the relay itself"),
        pytest.param("us-0", 5.0, "", id="the only one of its region"),
        pytest.param("eu-3", 5.0, "", id="a process that cannot be a relay"),
        pytest.param("eu-9", 5.0, "", id="a process that is not known"),
    ],
)
def test_relay_is_the_first_live_process_of_the_region(
    process: str, since: float, address: str
) -> None:
    everyone = members(
        member("us-0", seen_at=9.0, region="us", relay_address="us-0:9"),
        member("eu-3", seen_at=9.0, region="eu"),
        member("eu-0", seen_at=5.0, region="eu", relay_address="eu-0:9"),
        member("eu-1", seen_at=9.0, region="eu", relay_address="eu-1:9"),
        member("eu-2", seen_at=9.0, region="eu", relay_address="eu-2:9"),
    )

    assert everyone.relay_for(process, since=since) == address


def test_live_inference_workers_alone_are_asked() -> None:
    everyone = members(
        scoring("inference-0", "REF_INF", seen_at=4.9),
        scoring("inference-1", "REF_INF", seen_at=5.0),
        scoring("inference-2", "REWARD_INF", seen_at=9.0),
        member("rollout-0", seen_at=9.0),
    )

    asked = everyone.inference_endpoints(since=5.0)

    assert [each.address for each in asked] == ["inference-1:1", "inference-2:1"]


def test_time_of_a_task_includes_workers_that_left() -> None:
    everyone = members(
        scoring("inference-0", Task.REFERENCE_INFERENCE, seen_at=4.0),
        scoring("inference-1", Task.REFERENCE_INFERENCE, Task.REWARD_INFERENCE, seen_at=6.0),
        member("rollout-0", seen_at=9.0),
    )
    assert everyone.seen_at(Task.REFERENCE_INFERENCE) == 6.0
    assert everyone.seen_at(Task.CRITIC_INFERENCE) is None

    everyone.leave("inference-1")

    assert everyone.seen_at(Task.REFERENCE_INFERENCE) == 6.0
    assert everyone.num(Task.REFERENCE_INFERENCE) == 1
    assert everyone.num(Task.REWARD_INFERENCE) == 0


def test_processes_that_are_silent_for_too_long_are_struck_out() -> None:
    everyone = members(
        member("rollout-0", seen_at=4.9),
        member("rollout-1", seen_at=5.0),
        member("trainer-0", role=Role.TRAINER, seen_at=2.0),
    )

    everyone.forget_silent(5.0)

    assert [each.process for each in everyone] == ["rollout-1"]
    assert everyone.seen_at(Role.ROLLOUT) == 5.0
    assert everyone.seen_at(Role.TRAINER) == 2.0
