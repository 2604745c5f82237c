"""Weights that cross regions once: who is the relay, what it gives, and what happens without it."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hetrl_core.launch import Address, Launch
from hetrl_core.task import Role
from hetrl_runtime.coordinator.rules.members import Member, Members
from hetrl_runtime.transport.weights import relay
from hetrl_runtime.transport.weights.relay import WeightSource, weight_source
from hetrl_runtime.transport.weights.weights import Snapshot, WeightServer
from hetrl_runtime.wire.values import Announcement
from tests.runtime.launches import a_launch, free_port

DATA = {version: bytes([version]) * 100_000 for version in range(5)}


def afar(directory: Path) -> Launch:
    return a_launch(directory, region="away", weights_cross_regions=True)


def news(version: int, *, epoch: int = 1, by: WeightSource | None = None) -> Announcement:
    address = str(by.relay) if by else ""
    return Announcement(epoch=epoch, version=version, weights_address="", relay_address=address)


def trainer(launch: Launch, version: int) -> WeightServer:
    server = WeightServer(job=launch.job, address=launch.weights, tls=None)
    server.publish(Snapshot(version=version, data=DATA[version]))
    return server


def a_member(process: str, *, region: str = "away", seen_at: float = 0.0) -> Member:
    return Member(
        process=process,
        role=Role.ROLLOUT,
        pod_set="set",
        instance=process,
        seen_at=seen_at,
        region=region,
        relay_address=f"{process}:7401" if region else "",
    )


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        pytest.param("first", "", id="the relay asks the trainer"),
        pytest.param("second", "first:7401", id="another of its region asks the relay"),
        pytest.param("elsewhere", "", id="another region has a relay of its own"),
        pytest.param("near", "", id="over fast links the trainer is asked"),
        pytest.param("unknown", "", id="an unregistered process gets none"),
    ],
)
def test_first_of_a_region_is_its_relay(asks: str, expected: str) -> None:
    members = Members()
    for member in (
        a_member("near", region=""),
        a_member("first"),
        a_member("second"),
        a_member("elsewhere", region="far"),
    ):
        members.enter(member)
    assert members.relay_for(asks, since=0.0) == expected


def test_relay_that_falls_silent_or_leaves_is_replaced() -> None:
    members = Members()
    for number, name in enumerate(("first", "second", "third")):
        members.enter(a_member(name, seen_at=float(number)))
    assert members.relay_for("third", since=1.0) == "second:7401"
    members.leave("second")
    assert members.relay_for("third", since=1.0) == ""


async def test_version_in_use_stays_while_others_come(
    tmp_path: Path,
) -> None:
    launch = a_launch(tmp_path)
    with weight_source(launch, process="rollout-0") as source, trainer(launch, 0) as server:
        held = (await source.fetch(news(0), have_version=-1)).data
        released = set()
        for version in (1, 2, 3):
            server.publish(Snapshot(version=version, data=DATA[version]))
            fetched = await source.fetch(news(version), have_version=version - 1)
            assert fetched.data == DATA[version]
            released.add(address_of(fetched.data))
            del fetched

        assert held == DATA[0]
        assert len(released) == 1, "memory without views is reused"
        assert address_of(held) not in released


async def test_relayed_version_needs_no_trainer(tmp_path: Path) -> None:
    launch = afar(tmp_path)
    with (
        weight_source(launch, process="first") as first,
        weight_source(launch, process="second") as second,
    ):
        with trainer(launch, 1):
            fetched = await first.fetch(news(1), have_version=0)
        given = await second.fetch(news(1, by=first), have_version=0)

        assert bytes(given.data) == bytes(fetched.data) == DATA[1]
        assert (fetched.crossed_regions, given.crossed_regions) == (True, False)

        # And who was given them can take the relay's place.
        with weight_source(launch, process="third") as third:
            again = await third.fetch(news(1, by=second), have_version=0)
        assert bytes(again.data) == DATA[1]


async def test_worker_asks_the_trainer_without_its_relay(tmp_path: Path) -> None:
    launch = afar(tmp_path)
    gone = replace(news(2), relay_address=str(Address(host="127.0.0.1", port=free_port())))
    with weight_source(launch, process="second") as source, trainer(launch, 2):
        found = await source.fetch(gone, have_version=1)
    assert bytes(found.data) == DATA[2]
    assert found.crossed_regions


@pytest.mark.slow
async def test_relay_that_fetches_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "RELAY_SECONDS", 0.0)
    launch = afar(tmp_path)
    with (
        weight_source(launch, process="first") as empty,
        weight_source(launch, process="second") as source,
        trainer(launch, 2),
    ):
        found = await source.fetch(news(2, by=empty), have_version=1)
    assert bytes(found.data) == DATA[2]


async def test_relay_whose_link_is_slow_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "RELAY_SECONDS", 0.0)
    launch = afar(tmp_path)
    with (
        weight_source(launch, process="first") as slow,
        weight_source(launch, process="second") as source,
    ):
        # There is no trainer yet: that is as slow as a link can be.
        fetching = asyncio.create_task(slow.fetch(news(1), have_version=0))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(source.fetch(news(1, by=slow), have_version=0))
        done, _ = await asyncio.wait({waiting}, timeout=0.5)
        assert not done

        with trainer(launch, 1):
            await fetching
        assert not (await waiting).crossed_regions


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(news(3), id="an older version"),
        pytest.param(news(2, epoch=2), id="another epoch"),
    ],
)
async def test_relay_that_is_behind_gives_nothing_until_it_is_not(
    tmp_path: Path, later: Announcement
) -> None:
    launch = afar(tmp_path)
    with (
        weight_source(launch, process="first") as first,
        weight_source(launch, process="second") as second,
    ):
        with trainer(launch, 2):
            await first.fetch(news(2), have_version=1)
        relayed = replace(later, relay_address=str(first.relay))
        waiting = asyncio.create_task(second.fetch(relayed, have_version=1))
        done, _ = await asyncio.wait({waiting}, timeout=0.3)
        assert not done

        with trainer(launch, later.version):
            await first.fetch(later, have_version=-1)
        assert bytes((await waiting).data) == DATA[later.version]


def test_relays_are_not_used_on_fast_links(tmp_path: Path) -> None:
    with weight_source(a_launch(tmp_path), process="near") as source:
        assert source.relay is None


def test_pod_serves_under_its_name_in_the_jobs_domain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "sums-rollout-l4-0-1")
    coordinator = Address(host="sums-coordinator-0.sums.team.svc", port=7400)
    launch = replace(afar(tmp_path), coordinator=coordinator)
    with weight_source(launch, process="rollout-l4-0-1") as source:
        assert str(source.relay) == f"sums-rollout-l4-0-1.sums.team.svc:{launch.weights.port}"


def address_of(data: bytes | bytearray | memoryview) -> int:
    return np.frombuffer(data, np.uint8).ctypes.data
