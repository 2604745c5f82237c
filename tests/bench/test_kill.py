"""The proof's own eyes: what a broken run would look like is seen, and a good one passes."""

import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from bench.proof.kill import lineage
from bench.proof.kill.story import Story
from bench.proof.kill.strikes import strikes
from bench.proof.kill.tail import JournalTail, end_of
from hetrl_core.task import Role
from hetrl_runtime.coordinator.journal import history
from hetrl_runtime.coordinator.journal.journal import Journal
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import StepReport
from tests.runtime.trajectories import a_trajectory


def an_epoch(number: int, version: int, *, trainer: str = "") -> pb.JournalEntry:
    return pb.JournalEntry(
        epoch_begun=pb.EpochBegun(
            epoch=number,
            resume=pb.ResumePoint(version=version),
            trainer_instance=trainer or f"start {number}",
        )
    )


def accepted(group: int, *, version: int = 0) -> pb.JournalEntry:
    sampled = a_trajectory(group, 0, versions=(version,))
    return pb.JournalEntry(accepted=codec.encode_trajectory(sampled))


def committed(version: int, *groups: int) -> pb.JournalEntry:
    ids = [TrajectoryId(group, 0) for group in groups]
    return history.committed(version, consumed=ids, discarded=(), report=StepReport())


def story_of(
    entries: Iterable[pb.JournalEntry], *, steps: int, journal_is_whole: bool = True
) -> Story:
    story = Story(batch_size=1, max_staleness=1, journal_is_whole=journal_is_whole)
    for at, entry in enumerate(entries):
        story.take(entry, at_seconds=float(at))
    story.finish(steps=steps, group_size=1)
    return story


GOOD = (
    an_epoch(1, 0),
    accepted(0),
    committed(1, 0),
    accepted(1),
    committed(2, 1),
    accepted(2, version=1),
    committed(3, 2),
)


def test_history_that_keeps_its_promises_passes():
    story = story_of(GOOD, steps=3)

    assert story.violations == []
    assert [version.staleness for version in story.versions] == [(0,), (1,), (1,)]
    assert story.num_commits == 3


def test_batch_of_a_lost_history_may_be_trained_on_again():
    story = story_of(
        [
            *GOOD,
            an_epoch(2, 1),
            accepted(1, version=1),
            committed(2, 1),
            accepted(2, version=2),
            committed(3, 2),
        ],
        steps=3,
    )

    assert story.violations == []
    assert story.lost_steps == [2]
    assert story.num_commits == 5


@pytest.mark.parametrize(
    ("trainer", "violations"),
    [
        pytest.param("start 1", [], id="said again by who made it"),
        pytest.param(
            "start 2", ["2/0 was 2 versions old at version 2, the bound is 1"], id="made again"
        ),
    ],
)
def test_version_that_damaged_journal_forgot_keeps_its_age(trainer, violations):
    """The coordinator's buffer has another 2/0 by then, which was not trained on."""
    story = story_of(
        [*GOOD, an_epoch(2, 2, trainer=trainer), accepted(2, version=0), committed(3, 2)],
        steps=3,
        journal_is_whole=False,
    )

    assert story.violations == violations
    assert story.num_commits == 4


@pytest.mark.parametrize(
    ("entries", "steps", "violation"),
    [
        pytest.param(
            [*GOOD, accepted(1, version=3), committed(4, 1)],
            4,
            "1/0 was trained on 2 times",
            id="trained twice",
        ),
        pytest.param(
            [*GOOD, accepted(3, version=1), committed(4, 3)],
            4,
            "3/0 was 2 versions old at version 3, the bound is 1",
            id="too old",
        ),
        pytest.param(
            [*GOOD, accepted(3, version=4), committed(4, 3)],
            4,
            "a token was sampled by version 4",
            id="from the future",
        ),
        pytest.param([*GOOD, committed(5, 3)], 3, "version 5 follows version 3", id="a gap"),
        pytest.param(
            [*GOOD, committed(4, 3)],
            4,
            "version 4 was trained on what was never accepted",
            id="never accepted",
        ),
        pytest.param(
            [*GOOD, accepted(9, version=3), committed(4, 9)],
            4,
            "6 prompts were passed over",
            id="prompts passed over",
        ),
        pytest.param(
            [*GOOD, an_epoch(2, 7)],
            3,
            "epoch 2 begins at version 7, which nothing made",
            id="versions from nowhere",
        ),
        pytest.param(
            [*GOOD, an_epoch(2, 2, trainer="start 1")],
            2,
            "1 versions were taken back, though their trainer lived",
            id="a rewind for nothing",
        ),
        pytest.param([*GOOD, an_epoch(0, 3)], 3, "epoch 0 after epoch 1", id="an older epoch"),
        pytest.param(
            [*GOOD, accepted(3, version=3), accepted(4, version=3), committed(4, 3, 4)],
            4,
            "version 4 had 2 trajectories and 0 refused, not 1",
            id="a batch of another size",
        ),
        pytest.param(GOOD, 4, "the history ends at version 3 of 4", id="cut short"),
    ],
)
def test_broken_promise_is_seen(entries, steps, violation):
    assert any(violation in each for each in story_of(entries, steps=steps).violations)


def published(version: int, digest: str) -> str:
    return f"INFO transport.weights: weights published: version={version} sha256={digest * 64}"


def test_trainer_that_comes_back_with_its_own_weights_passes():
    log = [
        published(0, "a"),
        published(1, "b"),
        published(2, "c"),
        published(1, "b"),
        published(2, "d"),
        published(3, "e"),
        published(2, "d"),
    ]

    assert lineage.violations(log) == []


@pytest.mark.parametrize(
    ("log", "violation"),
    [
        ([published(0, "a"), published(1, "b"), published(1, "c")], "version 1 with other weights"),
        ([published(0, "a"), published(2, "b")], "version 2 was published, but not the one before"),
    ],
    ids=["other weights", "a gap"],
)
def test_trainer_with_weights_of_another_history_is_seen(log, violation):
    assert violation in lineage.violations(log)[0]


def groups(entries: Iterable[pb.JournalEntry]) -> list[int]:
    return [pb.Trajectory.FromString(entry.accepted).group for entry in entries]


def test_journal_is_followed_through_growth_replacement_and_cuts(tmp_path: Path) -> None:
    tail = JournalTail(tmp_path)
    assert tail.read() == []
    journal = Journal(tmp_path / "journal-1")
    for group in (0, 1):
        journal.append(accepted(group))
    journal.flush()
    assert groups(tail.read()) == [0, 1]
    journal.append(accepted(2))
    journal.flush()
    journal.replace([accepted(7)])
    assert groups(tail.read()) == [2, 7]

    path = tmp_path / "journal-1"
    journal.append(accepted(8))
    journal.close()
    assert groups(tail.read()) == [8]
    with path.open("r+b") as file:
        file.truncate(end_of(path, without_last=1))
    tail.cut(end_of(path, without_last=0))
    again = Journal(path)
    again.append(accepted(9))
    again.close()
    assert groups(tail.read()) == [9]
    tail.close()


def test_strikes_follow_from_their_seed_and_reach_every_role() -> None:
    drawn = strikes(1, 42)

    assert drawn == strikes(1, 42)
    assert drawn != strikes(2, 42)
    assert {each.role for each in drawn} == set(Role) - {Role.INFERENCE}
    assert {each.number for each in drawn} == {signal.SIGKILL, signal.SIGTERM}
