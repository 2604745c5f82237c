"""The journal: what a restarted coordinator knows, whatever a crash did to the file."""

from pathlib import Path

import pytest

from hetrl_core.algorithm import AlgorithmSpec
from hetrl_runtime.coordinator import history
from hetrl_runtime.coordinator.journal import Journal, read
from hetrl_runtime.coordinator.state import RunState
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.values import Ending, ResumePoint
from tests.runtime.trajectories import a_trajectory


def an_entry(group: int) -> pb.JournalEntry:
    return pb.JournalEntry(accepted=codec.encode_trajectory(a_trajectory(group)))


def written(path: Path, count: int) -> None:
    journal = Journal(path)
    for group in range(count):
        journal.append(an_entry(group))
    journal.close()


def groups(path: Path) -> list[int]:
    return [entry.accepted.group for entry in read(path)]


def test_entries_come_back_in_their_order(tmp_path: Path) -> None:
    written(tmp_path / "journal", 3)

    assert groups(tmp_path / "journal") == [0, 1, 2]


def test_there_is_nothing_in_a_journal_that_does_not_exist(tmp_path: Path) -> None:
    assert groups(tmp_path / "journal") == []


@pytest.mark.parametrize("lost_bytes", [1, 7, 50])
def test_a_cut_off_tail_is_left_out_and_written_over(tmp_path: Path, lost_bytes: int) -> None:
    path = tmp_path / "journal"
    written(path, 3)
    path.write_bytes(path.read_bytes()[:-lost_bytes])

    assert groups(path) == [0, 1]
    written(path, 1)
    assert groups(path) == [0, 1, 0]


def test_a_damaged_entry_ends_the_history(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    written(path, 3)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)

    assert groups(path) == [0]


def test_a_replaced_journal_is_the_new_one_and_grows_on(tmp_path: Path) -> None:
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


def test_history_in_short_rebuilds_the_state(tmp_path: Path) -> None:
    state = a_state()
    state.begin(ResumePoint(), epoch=5)
    loans = state.lend("w", worker_version=0, max_trajectories=9, now=0.0)
    assert isinstance(loans, tuple)
    ids = [identity for loan in loans for identity in loan.ids]
    for identity in ids[:6]:
        state.accept(a_trajectory(*identity, epoch=5, process="w"))
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
