"""Leader election with a manual clock and a lease that two candidates share."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from hetrl_operator.kube.client import KubernetesApi, Reply
from hetrl_operator.kube.leader_election import Candidate, LeaderElection, LeaseConfig

CONFIG = LeaseConfig(lease_seconds=12, renew_within_seconds=8, retry_seconds=2)


@dataclass
class LeaseServer:
    """An API server with one Lease: it has optimistic concurrency and may be unavailable."""

    lease: dict[str, Any] | None = None
    version: int = 0
    is_away: bool = False
    loses_answers: bool = False
    written: list[dict[str, Any]] = field(default_factory=list)

    async def request(
        self, method: str, _: str, *, body: Mapping[str, Any] | None = None, **__: Any
    ) -> Reply:
        if self.is_away:
            return Reply(status=0, body={})
        if method == "GET":
            found = self.lease
            return Reply(status=200, body=found) if found else Reply(status=404, body={})
        assert body is not None
        if method == "POST" and self.lease is not None:
            return Reply(status=409, body={})
        if method == "PUT" and body["metadata"].get("resourceVersion") != str(self.version):
            return Reply(status=409, body={})
        self.version += 1
        self.lease = {
            **body,
            "metadata": {**body["metadata"], "resourceVersion": str(self.version)},
        }
        self.written.append(self.lease["spec"])
        return (
            Reply(status=0, body={}) if self.loses_answers else Reply(status=200, body=self.lease)
        )


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> LeaseServer:
    return LeaseServer()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def candidate(name: str, server: LeaseServer, clock: Clock) -> LeaderElection:
    return LeaderElection(
        api=cast("KubernetesApi", server),
        candidate=Candidate(namespace="hetrl-system", lease="hetrl", identity=name, address=name),
        config=CONFIG,
        clock=clock,
        rng=random.Random(1),
    )


async def test_first_to_write_the_lease_leads_alone(server: LeaseServer, clock: Clock) -> None:
    first, second = (candidate(name, server, clock) for name in "ab")

    assert await first._attempt()
    assert not await second._attempt()

    assert first.leads()
    assert not second.leads()
    assert second.leader_address() == "a"


async def test_lease_that_is_renewed_is_never_taken(server: LeaseServer, clock: Clock) -> None:
    first, second = (candidate(name, server, clock) for name in "ab")
    await first._attempt()

    for _ in range(30):
        clock.now += 2
        assert await first._attempt()
        assert not await second._attempt()


async def test_holder_stops_before_another_may_begin(server: LeaseServer, clock: Clock) -> None:
    first, second = (candidate(name, server, clock) for name in "ab")
    await first._attempt()
    await second._attempt()

    for _ in range(12):
        clock.now += 1
        taken = await second._attempt()
        assert not (taken and first.leads())

    assert second.leads()
    assert server.written[-1]["leaseTransitions"] == 1


async def test_timestamps_of_other_holders_count_for_nothing(
    server: LeaseServer, clock: Clock
) -> None:
    first, second = (candidate(name, server, clock) for name in "ab")
    await first._attempt()
    assert server.lease
    server.lease["spec"]["renewTime"] = "1999-01-01T00:00:00.000000Z"

    clock.now += 11.9

    assert not await second._attempt()


async def test_lost_renewal_response_is_detected(server: LeaseServer, clock: Clock) -> None:
    ours = candidate("a", server, clock)
    await ours._attempt()
    server.loses_answers = True
    clock.now += 2
    assert not await ours._attempt()
    server.loses_answers = False

    clock.now += 2
    assert not await ours._attempt(), "the version that we know is not the newest"
    assert await ours._attempt()
    assert ours.leads()


async def test_holder_that_cannot_reach_the_api_server_stops_acting(
    server: LeaseServer, clock: Clock
) -> None:
    ours = candidate("a", server, clock)
    await ours._attempt()
    server.is_away = True

    clock.now += 7.9
    assert ours.leads()
    clock.now += 0.2
    assert not ours.leads()


async def test_released_lease_is_acquired_at_once(server: LeaseServer, clock: Clock) -> None:
    first, second = (candidate(name, server, clock) for name in "ab")
    await first._attempt()
    assert not await second._attempt()

    await first.release()

    assert not first.leads()
    assert await second._attempt()


async def test_end_of_a_lease_is_waited_for_to_the_moment(
    server: LeaseServer, clock: Clock
) -> None:
    first, second = (candidate(name, server, clock) for name in "ab")
    await first._attempt()
    await second._attempt()

    clock.now += 11.5

    assert second._expires_in() == pytest.approx(0.5)
