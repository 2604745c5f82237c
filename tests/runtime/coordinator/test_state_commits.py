"""Commits and resumed histories in the state of a run."""

import pytest

from hetrl_runtime.coordinator.rules.commits import CommitRefused, Committed
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import Outcome
from tests.runtime.coordinator.states import WORKER, a_state, deliver, lease, step
from tests.runtime.trajectories import a_trajectory, delivered


def test_commit_that_is_sent_twice_counts_once() -> None:
    state = a_state()
    ids = step(state)

    again = state.commit(1, consumed=ids)

    assert isinstance(again, Committed)
    assert again.consumed == ()
    assert state.version == 1


@pytest.mark.parametrize(
    ("version", "extra", "complaint"),
    [
        (3, [], "version 3 does not follow version 1"),
        (2, [TrajectoryId(9, 0)], "was not in the batch"),
        (2, "twice", "named twice"),
    ],
    ids=["a version is left out", "an unknown one", "the same twice"],
)
def test_commit_that_does_not_follow_is_refused(
    version: int, extra: list[TrajectoryId] | str, complaint: str
) -> None:
    state = a_state()
    step(state)
    for identity in lease(state, 4):
        deliver(state, identity)
    ids = [each.id for each in state.batch()]

    refused = state.commit(version, consumed=ids + (ids[:1] if isinstance(extra, str) else extra))

    assert isinstance(refused, CommitRefused)
    assert complaint in refused.reason
    assert state.version == 1


def test_consumed_batch_cannot_be_committed_again() -> None:
    state = a_state()
    ids = step(state)

    refused = state.commit(2, consumed=ids)

    assert isinstance(refused, CommitRefused)
    assert "consumed before" in refused.reason


def test_discarded_group_is_generated_again_only_as_a_whole() -> None:
    state = a_state(group_size=2, batch_size=4)
    for identity in lease(state, 4):
        deliver(state, identity)
    first = [each.id for each in state.batch()]

    state.commit(1, consumed=first[3:], discarded=first[:3])

    assert lease(state, 4)[:2] == first[:2]


def test_discarding_never_lets_more_work_in() -> None:
    state = a_state(max_staleness=1, group_size=2, batch_size=4)
    for _ in range(5):
        while not state.batch():
            for identity in lease(state, 4):
                deliver(state, identity)
        ids = [each.id for each in state.batch()]
        state.commit(state.version + 1, consumed=ids[2:], discarded=ids[:2])

    lease(state, 100)

    assert state.num_running + state.num_buffered <= 8


def test_returning_trainer_finds_groups_of_lost_versions_again() -> None:
    state = a_state(max_staleness=1, group_size=2, batch_size=4)
    step(state)
    checkpoint = state.resume_point()
    lost = step(state) + step(state)

    state.begin(checkpoint, epoch=2)

    assert state.version == 1
    found = [each for _ in range(4) for each in lease(state, 2)]
    assert found == sorted(lost)


def test_trajectories_of_the_surviving_history_are_kept() -> None:
    state = a_state(max_staleness=3, group_size=1, batch_size=1)
    first, old, newer, _ = lease(state, 4)
    deliver(state, first, 0)
    state.commit(1, consumed=[each.id for each in state.batch()])
    checkpoint = state.resume_point()
    deliver(state, old, 0, 1)
    deliver(state, newer, 1, 2)

    num_lost = state.begin(checkpoint, epoch=2)

    assert num_lost == 1
    assert [each.id for each in state.batch()] == [old]
    assert lease(state, 1) == [newer]


def test_coordinator_without_journal_resumes_from_the_trainer_alone() -> None:
    state = a_state()
    for _ in range(3):
        step(state)
    handed = []
    while not state.batch():
        handed = [each for each in lease(state, 4) if deliver(state, each) is Outcome.ACCEPTED]
    ids = [each.id for each in state.batch()]

    fresh = a_state(resume=state.resume_point())
    done = fresh.commit(4, consumed=ids)

    assert handed
    assert isinstance(done, Committed)
    assert not {each.group for each in ids} & {each.group for each in lease(fresh, 8)}


@pytest.mark.parametrize(
    ("group", "refusal"),
    [
        pytest.param(11, "", id="three batches of four, each trajectory of another group"),
        pytest.param(12, "group 12 was never leased", id="one group more"),
    ],
)
def test_commit_names_groups_within_the_staleness_bound(group: int, refusal: str) -> None:
    """A coordinator without a journal cannot know what was leased before."""
    state = a_state(max_staleness=1, group_size=2, batch_size=4)

    done = state.commit(1, consumed=[TrajectoryId(group, 0)])

    assert (done.reason if isinstance(done, CommitRefused) else "") == refusal


def test_trainer_without_a_reference_gets_only_scored_trajectories() -> None:
    state = a_state()
    unscored = lease(state, 4)
    for identity in unscored:
        assert deliver(state, identity) is Outcome.ACCEPTED

    lost = state.begin(state.resume_point(), epoch=2, needs_reference=True)

    assert (lost, state.num_buffered) == (4, 0)
    again = lease(state, 4)
    assert again == unscored
    late = again[0]
    bare = a_trajectory(*late, epoch=2, process=WORKER)
    assert state.accept(delivered(bare)) is Outcome.UNSCORED
    assert lease(state, 1) == [late]
    for identity in again:
        scored = a_trajectory(*identity, epoch=2, process=WORKER, is_scored=True)
        assert state.accept(delivered(scored)) is Outcome.ACCEPTED
    assert [each.id for each in state.batch()] == again


def test_trainer_with_a_reference_takes_what_others_have_scored() -> None:
    state = a_state()
    for identity in lease(state, 4):
        scored = a_trajectory(*identity, process=WORKER, is_scored=True)
        assert state.accept(delivered(scored)) is Outcome.ACCEPTED

    assert state.begin(state.resume_point(), epoch=2) == 0
    assert len(state.batch()) == 4
