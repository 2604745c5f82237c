"""The journal: what a restarted coordinator knows, whatever a crash did to the file."""

import contextlib
import errno
import resource
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_runtime.coordinator.journal import history
from hetrl_runtime.coordinator.journal.journal import Journal, read
from hetrl_runtime.coordinator.rules.state import RunState
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.values import Ending, ResumePoint
from tests.runtime.trajectories import a_trajectory, delivered


def an_entry(group: int) -> pb.JournalEntry:
    return pb.JournalEntry(accepted=codec.encode_trajectory(a_trajectory(group)))


def written(path: Path, count: int) -> None:
    journal = Journal(path)
    for group in range(count):
        journal.append(an_entry(group))
    journal.close()


def groups(path: Path) -> list[int]:
    return [pb.Trajectory.FromString(entry.accepted).group for entry in read(path)]


def test_entries_come_back_in_their_order(tmp_path: Path) -> None:
    written(tmp_path / "journal", 3)

    assert groups(tmp_path / "journal") == [0, 1, 2]


def test_missing_journal_is_empty(tmp_path: Path) -> None:
    assert groups(tmp_path / "journal") == []


@pytest.mark.parametrize("lost_bytes", [1, 7, 50])
def test_cut_off_tail_is_left_out_and_written_over(tmp_path: Path, lost_bytes: int) -> None:
    path = tmp_path / "journal"
    written(path, 3)
    path.write_bytes(path.read_bytes()[:-lost_bytes])

    assert groups(path) == [0, 1]
    written(path, 1)
    assert groups(path) == [0, 1, 0]


def test_damaged_entry_ends_the_history(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    written(path, 3)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)

    assert groups(path) == [0]


@pytest.mark.parametrize(
    "tail", [b"\0" * 4096, b"\0" * 3, b"damaged" * 50], ids=["zeros", "few zeros", "bytes"]
)
def test_damaged_tail_is_kept_beside_the_journal(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "journal"
    written(path, 2)
    good = path.read_bytes()
    for number in (1, 2):
        path.write_bytes(good + tail)

        assert groups(path) == [0, 1]
        assert path.read_bytes() == good
        assert path.with_name(f"journal.damaged-{number}").read_bytes() == tail

    assert groups(path) == [0, 1]
    assert not path.with_name("journal.damaged-3").exists()


def test_replaced_journal_is_the_new_one_and_grows_on(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    written(path, 3)
    journal = Journal(path)
    journal.replace([an_entry(7)])
    journal.append(an_entry(8))
    journal.close()

    assert groups(path) == [7, 8]


def a_state() -> RunState:
    algorithm = AlgorithmSpec(max_staleness=2, group_size=2, global_batch_size=4)
    return RunState(algorithm, max_concurrent=100, lease_seconds=20.0)


def test_compacted_history_rebuilds_the_state(tmp_path: Path) -> None:
    state = a_state()
    state.begin(ResumePoint(), epoch=5)
    leases = state.lease("w", worker_version=0, max_trajectories=9, now=0.0)
    assert isinstance(leases, tuple)
    ids = [identity for lease in leases for identity in lease.ids]
    for identity in ids[:6]:
        state.accept(delivered(a_trajectory(*identity, epoch=5, process="w")))
    state.commit(1, consumed=[each.id for each in state.batch()])
    journal = Journal(tmp_path / "journal")
    journal.replace(history.entries(state, "first-start"))
    journal.append(pb.JournalEntry(ended=pb.RunEnded(reason="NoLearningSignal", message="zeros")))
    journal.close()

    rebuilt = a_state()
    recovered = history.replay(rebuilt, read(tmp_path / "journal"), now=100.0)

    assert recovered.trainer_instance == "first-start"
    assert recovered.ending == Ending(reason="NoLearningSignal", message="zeros")
    for name in ("epoch", "version", "num_buffered", "num_running", "num_pending", "capacity"):
        assert getattr(rebuilt, name) == getattr(state, name), name
    assert rebuilt.resume_point() == state.resume_point()
    assert {each.id for each in rebuilt.buffered()} == set(ids[4:6])
    # Leases count from the restart, so that work in flight is not thrown away.
    assert rebuilt.expire(now=119.0) == ()
    assert set(rebuilt.expire(now=120.0)) == set(ids[6:])


def test_long_journal_is_shortened_beside_what_is_still_written(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, compact_above_bytes=10_000)
    number = 0
    while not journal.is_long:
        journal.append(an_entry(number))
        journal.flush()
        number += 1
    journal.compact(an_entry(each) for each in (number - 1,))
    kept = [number - 1]
    deadline = time.monotonic() + 60
    long = path.stat().st_ino
    while path.stat().st_ino == long and time.monotonic() < deadline:
        kept.append(number)
        journal.append(an_entry(number))
        journal.flush()
        number += 1
    journal.append(an_entry(number))
    journal.close()

    # Nothing of what came meanwhile is lost, and of the rest only the outcome is left.
    assert groups(path) == [*kept, number]
    assert not path.with_suffix(".new").exists()


def test_journal_that_cannot_be_shortened_stays_long(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, compact_above_bytes=0)
    journal.append(an_entry(0))

    def breaks() -> Iterator[pb.JournalEntry]:
        yield an_entry(0)
        raise OSError(errno.ENOSPC, "No space left on device")

    journal.compact(breaks())
    deadline = time.monotonic() + 60
    number = 1
    while not journal.is_long and time.monotonic() < deadline:
        journal.append(an_entry(number))
        journal.flush()
        number += 1
    journal.close()

    assert groups(path) == list(range(number))
    assert not path.with_suffix(".new").exists()


def test_new_epoch_replaces_a_journal_being_shortened(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    written(path, 3)
    journal = Journal(path)
    journal.compact(an_entry(each) for each in range(3))
    journal.replace([an_entry(7)])
    journal.append(an_entry(8))
    journal.close()

    assert groups(path) == [7, 8]


@pytest.mark.parametrize("room_bytes", [0, 1, 100, 5000], ids=str)
def test_journal_appends_nothing_after_half_an_entry(tmp_path: Path, room_bytes: int) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.append(an_entry(0))
    journal.flush()
    with (
        no_file_longer_than(path.stat().st_size + room_bytes),
        pytest.raises(OSError, match=r"journal cannot be written: File too large.*journal"),
    ):
        append_all(journal, range(1, 1000))
    survived = len(groups_of(path))

    # There is room again, but what is acknowledged now would not be read.
    for write in (journal.flush, journal.force, lambda: journal.replace([an_entry(7)])):
        with pytest.raises(OSError, match="journal cannot be written"):
            write()
    with pytest.raises(OSError, match="journal cannot be written"):
        journal.close()

    assert groups(path) == list(range(survived))


def append_all(journal: Journal, numbers: Iterable[int]) -> None:
    for number in numbers:
        journal.append(an_entry(number))
        journal.flush()


@contextlib.contextmanager
def no_file_longer_than(size_bytes: int) -> Iterator[None]:
    """A disk that is full from there on."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def groups_of(path: Path) -> list[int]:
    """The groups of the whole entries, without cutting the file."""
    copy = path.with_suffix(".copy")
    copy.write_bytes(path.read_bytes())
    return groups(copy)
