"""Weights by process group, over real sockets: to all at once, and what happens when it fails."""

import asyncio
import errno
import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hetrl_core import launch as contract
from hetrl_core.job.spec import WeightTransport
from hetrl_core.launch import JobIdentity, Launch
from hetrl_runtime.broadcast import group
from hetrl_runtime.broadcast.receiver import Receiver
from hetrl_runtime.broadcast.sender import Sender
from hetrl_runtime.compute.buffers import Buffers
from hetrl_runtime.transport.weights.relay import WeightSource
from hetrl_runtime.transport.weights.weights import Snapshot, WeightServer
from hetrl_runtime.wire.values import Announcement
from tests.runtime.launches import a_launch


def a_broadcast_launch(directory: Path) -> Launch:
    return a_launch(directory, weight_transport=WeightTransport.NCCL)


@contextmanager
def a_trainer(launch: Launch) -> Iterator[WeightServer]:
    with a_trainer_and_its_sender(launch) as (server, _):
        yield server


@contextmanager
def a_trainer_and_its_sender(launch: Launch) -> Iterator[tuple[WeightServer, Sender]]:
    server = WeightServer(job=launch.job, address=launch.weights, tls=None)
    sender = Sender(launch, server)
    with server, sender:
        yield server, sender


@pytest.fixture
def nobody_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a round from beginning before ``begin_with`` lets it."""
    monkeypatch.setattr("hetrl_runtime.broadcast.rounds.GATHER_SECONDS", 600.0)


async def begin_with(num_workers: int, sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a round begin once so many attend, however long they took to come."""
    async with asyncio.timeout(60.0):
        while len(sender._attendances) < num_workers:
            await asyncio.sleep(0.02)
    monkeypatch.setattr("hetrl_runtime.broadcast.rounds.GATHER_SECONDS", 0.0)
    with sender._changed:
        sender._changed.notify_all()


def weights(version: int, *, num_bytes: int = 1000) -> Snapshot:
    return Snapshot(version=version, data=bytes([version, 7]) * (num_bytes // 2))


def broadcasts(log: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in log.records if "weights broadcast" in each.getMessage()]


@pytest.mark.usefixtures("nobody_begins")
@pytest.mark.parametrize(
    "num_bytes",
    [
        pytest.param(0, id="nothing"),
        pytest.param(500, id="less than a part"),
        pytest.param(4096, id="whole parts"),
        pytest.param(5000, id="parts and a rest"),
    ],
)
async def test_workers_receive_the_same_bytes_in_one_round(
    tmp_path: Path,
    num_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(group, "PART_BYTES", 1024)
    launch = a_broadcast_launch(tmp_path)
    workers = [Receiver(launch, process=f"rollout-{number}") for number in range(3)]
    with a_trainer_and_its_sender(launch) as (trainer, sender):
        trainer.publish(weights(1, num_bytes=num_bytes))
        *found, _ = await asyncio.gather(
            *(each.receive(have_version=0) for each in workers),
            begin_with(len(workers), sender, monkeypatch),
        )
    for each in found:
        assert isinstance(each, Snapshot), each
        assert each.was_broadcast
        assert bytes(each.data) == weights(1, num_bytes=num_bytes).data
    assert len(broadcasts(caplog)) == 1
    assert "readers=3" in broadcasts(caplog)[0]


async def the_next(version: int, *, of: WeightServer, to: Receiver) -> Snapshot:
    of.publish(weights(version))
    found = await to.receive(have_version=version - 1)
    assert isinstance(found, Snapshot), found
    return found


async def test_members_stay_connected_between_rounds(tmp_path: Path) -> None:
    launch = a_broadcast_launch(tmp_path)
    worker = Receiver(launch, process="rollout-0")
    with a_trainer(launch) as trainer:
        groups = []
        for version in (1, 2, 3):
            found = await the_next(version, of=trainer, to=worker)
            assert (found.version, bytes(found.data)) == (version, weights(version).data)
            groups.append(worker._group)
    assert groups[0] is groups[1] is groups[2]


async def test_version_in_use_is_not_overwritten(tmp_path: Path) -> None:
    launch = a_broadcast_launch(tmp_path)
    worker = Receiver(launch, process="rollout-0")
    with a_trainer(launch) as trainer:
        held = [await the_next(version, of=trainer, to=worker) for version in (1, 2, 3)]
    assert [bytes(each.data) for each in held] == [weights(n).data for n in (1, 2, 3)]


async def test_worker_that_comes_later_is_taken_in(tmp_path: Path) -> None:
    launch = a_broadcast_launch(tmp_path)
    first, second = (Receiver(launch, process=f"rollout-{number}") for number in range(2))
    with a_trainer(launch) as trainer:
        trainer.publish(weights(1))
        assert isinstance(await first.receive(have_version=0), Snapshot)
        trainer.publish(weights(2))
        found = await asyncio.gather(first.receive(have_version=1), second.receive(have_version=0))
    assert [each.version for each in found if isinstance(each, Snapshot)] == [2, 2]


async def test_worker_waits_for_a_version_that_it_does_not_have(tmp_path: Path) -> None:
    launch = a_broadcast_launch(tmp_path)
    worker = Receiver(launch, process="rollout-0")
    with a_trainer(launch) as trainer:
        trainer.publish(weights(1))
        waiting = asyncio.create_task(worker.receive(have_version=1))
        done, _ = await asyncio.wait({waiting}, timeout=0.3)
        assert not done
        trainer.publish(weights(2))
        found = await waiting
    assert isinstance(found, Snapshot)
    assert found.version == 2


async def test_worker_of_another_job_is_sent_nothing(tmp_path: Path) -> None:
    launch = a_broadcast_launch(tmp_path)
    stranger = replace(launch, job=JobIdentity(namespace="default", name="sums", uid="other"))
    with a_trainer(launch) as trainer:
        trainer.publish(weights(1))
        found = await Receiver(stranger, process="rollout-0").receive(have_version=0)
    assert isinstance(found, str)
    assert "these are the weights of" in found


async def test_missing_trainer_gives_a_reason(tmp_path: Path) -> None:
    found = await Receiver(a_broadcast_launch(tmp_path), process="p").receive(have_version=0)
    assert isinstance(found, str)
    assert found


async def test_weights_outside_the_broadcast_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no link between the two")

    launch = a_broadcast_launch(tmp_path)
    monkeypatch.setattr(group.Group, "send", fails)
    source = WeightSource(launch, process="p", server=None, broadcast=Receiver(launch, process="p"))
    with a_trainer(launch) as trainer:
        trainer.publish(weights(1))
        news = Announcement(epoch=1, version=1, weights_address="")
        found = await source.fetch(news, have_version=0)
    assert bytes(found.data) == weights(1).data
    assert not found.was_broadcast
    assert "no broadcast came" in caplog.text
    assert "readers=1 no link between the two" in caplog.text


async def test_bytes_that_changed_on_the_way_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = group.Group.receive

    def damaged(self: group.Group, into: memoryview) -> int:
        return receive(self, into) ^ 1

    monkeypatch.setattr(group.Group, "receive", damaged)
    launch = a_broadcast_launch(tmp_path)
    with a_trainer(launch) as trainer:
        trainer.publish(weights(1))
        found = await Receiver(launch, process="p").receive(have_version=0)
    assert found == "what was received has a wrong checksum"


async def test_worker_without_memory_for_weights_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Buffers, num_bytes: int) -> memoryview:
        raise OSError(errno.ENOMEM, f"no memory for {num_bytes} bytes")

    monkeypatch.setattr(Buffers, "acquire", full)
    # The reader is gone: its leave is not awaited for long.
    monkeypatch.setattr("hetrl_runtime.broadcast.sender._PARTING_SECONDS", 0.1)
    launch = a_broadcast_launch(tmp_path)
    with a_trainer(launch) as trainer:
        trainer.publish(weights(1))
        found = await Receiver(launch, process="p").receive(have_version=0)
    assert f"no memory for {len(weights(1).data)} bytes" in str(found)


@pytest.mark.slow
async def test_worker_that_hangs_up_before_the_round_is_not_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("hetrl_runtime.broadcast.rounds.GATHER_SECONDS", 2.0)
    launch = a_broadcast_launch(tmp_path)
    with a_trainer(launch) as trainer:
        trainer.publish(weights(1))
        leaves = asyncio.create_task(Receiver(launch, process="leaves").receive(have_version=0))
        await asyncio.wait({leaves}, timeout=0.5)
        leaves.cancel()
        found = await Receiver(launch, process="stays").receive(have_version=0)
    assert isinstance(found, Snapshot), found
    assert "readers=1" in broadcasts(caplog)[0]


_DOOMED = """
import asyncio, os, signal, sys
from pathlib import Path
from hetrl_core import launch
from hetrl_runtime.broadcast.group import Group
from hetrl_runtime.broadcast.receiver import Receiver

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(Group, sys.argv[2], die)
asyncio.run(Receiver(launch.from_json(Path(sys.argv[1]).read_text()), process="doomed")
            .receive(have_version=0))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("nobody_begins")
@pytest.mark.parametrize("dies_at", ["__init__", "receive"])
async def test_member_that_dies_stops_no_other(
    tmp_path: Path, dies_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = a_broadcast_launch(tmp_path)
    file = tmp_path / "launch.json"
    file.write_text(contract.to_json(launch))
    worker = Receiver(launch, process="lives")
    with a_trainer_and_its_sender(launch) as (trainer, sender):
        trainer.publish(weights(1, num_bytes=100 << 20))
        with subprocess.Popen([sys.executable, "-c", _DOOMED, str(file), dies_at]) as doomed:
            found, _ = await asyncio.gather(
                worker.receive(have_version=0), begin_with(2, sender, monkeypatch)
            )
            assert isinstance(found, str), "it came though a member died"
            assert doomed.wait() == -signal.SIGKILL
        assert isinstance(await worker.receive(have_version=0), Snapshot)
