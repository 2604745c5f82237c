"""The rules of a run, one at a time."""

import pytest

from hetrl_runtime.coordinator.rules.state import MAX_FAILURES, WorkerBehind
from hetrl_runtime.wire.trajectory import FailedTrajectory, TrajectoryId
from hetrl_runtime.wire.values import Outcome, ResumePoint
from tests.runtime.coordinator.states import OTHER, WORKER, a_state, deliver, lease, step
from tests.runtime.trajectories import a_trajectory, delivered


def test_bound_limits_leases() -> None:
    state = a_state(max_staleness=1, batch_size=4)

    assert len(lease(state, 100)) == 8
    assert lease(state, 100) == []


def test_workers_limit_leases() -> None:
    state = a_state(max_concurrent=3)

    assert len(lease(state, 100)) == 3


def test_version_lets_one_more_batch_in() -> None:
    state = a_state(max_staleness=1, batch_size=4)
    step(state)

    assert len(lease(state, 100)) == 8


def test_worker_too_far_behind_gets_the_version_that_it_needs() -> None:
    state = a_state(max_staleness=1)
    for _ in range(3):
        step(state)

    leases = state.lease(WORKER, worker_version=1, max_trajectories=4, now=0.0)

    assert leases == WorkerBehind(needs_version=2)


def test_worker_behind_a_slow_link_gets_nothing_that_expires() -> None:
    state = a_state(max_staleness=1, batch_size=4)
    step(state)

    in_time = state.lease(WORKER, worker_version=0, max_trajectories=100, now=0.0)
    too_late = state.lease(WORKER, worker_version=0, max_trajectories=100, now=0.0)

    assert not isinstance(in_time, WorkerBehind)
    assert sum(len(each.ids) for each in in_time) == 4
    assert too_late == WorkerBehind(needs_version=1)
    assert len(lease(state, 100)) == 4


def test_batches_consist_of_whole_groups() -> None:
    state = a_state(group_size=2, batch_size=4)
    ids = lease(state, 6)
    for identity in ids:
        if identity != TrajectoryId(1, 1):
            deliver(state, identity)

    groups = {each.group for each in state.batch()}

    assert groups == {0, 2}


def test_oldest_sampled_groups_go_first() -> None:
    state = a_state(group_size=1, batch_size=1, max_staleness=3)
    first, second, third = lease(state, 3)
    deliver(state, third, 0)
    state.batch()
    state.commit(1, consumed=[third])

    deliver(state, second, 1)
    deliver(state, first, 0, 1)

    assert [each.id for each in state.batch()] == [first]


def test_batch_is_the_same_until_it_is_committed() -> None:
    state = a_state(group_size=1, batch_size=1, max_staleness=3)
    first, second = lease(state, 2)
    deliver(state, second)
    handed = state.batch()

    deliver(state, first)

    assert state.batch() == handed


def test_delivery_is_accepted_once() -> None:
    state = a_state()
    identity = lease(state, 1)[0]

    assert [deliver(state, identity) for _ in range(2)] == [Outcome.ACCEPTED, Outcome.DUPLICATE]
    assert state.num_buffered == 1


def test_consumed_trajectory_is_a_duplicate_ever_after() -> None:
    state = a_state()
    identity = step(state)[0]

    assert deliver(state, identity) is Outcome.DUPLICATE


def test_lease_without_heartbeats_goes_to_another_worker() -> None:
    state = a_state(group_size=1, batch_size=1, max_staleness=0)
    identity = lease(state, 1)[0]

    assert state.expire(now=19.9) == ()
    assert state.expire(now=20.0) == (identity,)
    assert lease(state, 1, process=OTHER) == [identity]
    assert deliver(state, identity) is Outcome.EXPIRED
    assert deliver(state, identity, process=OTHER) is Outcome.ACCEPTED


def test_late_delivery_is_accepted_unless_leased_again() -> None:
    state = a_state()
    identity = lease(state, 1)[0]
    state.expire(now=20.0)

    assert deliver(state, identity) is Outcome.ACCEPTED
    assert lease(state, 1) != [identity]


def test_heartbeats_keep_what_they_name_and_nothing_else() -> None:
    state = a_state()
    kept, lost = lease(state, 2)

    assert state.hold(WORKER, [kept], now=15.0) == ()
    assert state.expire(now=20.0) == (lost,)
    assert state.hold(WORKER, [kept, lost], now=21.0) == (lost,)


def test_worker_that_leaves_gives_everything_back() -> None:
    state = a_state()
    ids = lease(state, 2)

    assert list(state.release(WORKER)) == ids
    assert lease(state, 2, process=OTHER) == ids


def test_trajectory_begun_too_long_ago_is_withdrawn_at_the_commit() -> None:
    state = a_state(group_size=1, batch_size=1, max_staleness=1)
    slow = lease(state, 1, process=OTHER)[0]
    step(state)
    assert state.hold(OTHER, [slow], now=0.0) == ()

    step(state)

    assert state.hold(OTHER, [slow], now=0.0) == (slow,)
    assert deliver(state, slow, 0, process=OTHER) is Outcome.STALE
    assert lease(state, 1) == [slow]


def test_expired_members_of_an_unfinished_group_are_generated_again() -> None:
    state = a_state(group_size=2, batch_size=2, max_staleness=1)
    old, missing = lease(state, 2, process=OTHER)
    deliver(state, old, process=OTHER)
    step(state)
    assert state.num_buffered == 1

    step(state)

    assert state.num_buffered == 0
    assert lease(state, 2) == [old, missing]


def test_group_of_another_member_count_is_malformed() -> None:
    state = a_state(group_size=2)
    group = lease(state, 1)[0].group

    assert deliver(state, TrajectoryId(group, 2)) is Outcome.MALFORMED


def test_tokens_of_the_next_version_wait_for_its_commit() -> None:
    # A worker may fetch weights between their publication and the commit.
    state = a_state(group_size=1, batch_size=1)
    early, other = lease(state, 2)

    assert deliver(state, early, 0, 1) is Outcome.ACCEPTED
    assert state.batch() == ()
    assert deliver(state, other) is Outcome.ACCEPTED
    assert state.commit(1, consumed=[each.id for each in state.batch()])
    assert [each.id for each in state.batch()] == [early]


def test_tokens_from_further_ahead_cannot_be() -> None:
    state = a_state()

    assert deliver(state, lease(state, 1)[0], 2) is Outcome.MALFORMED


def test_deliveries_of_an_earlier_epoch_are_fenced_off() -> None:
    state = a_state()
    identity = lease(state, 1)[0]
    state.begin(ResumePoint(), epoch=2)

    assert deliver(state, identity) is Outcome.FENCED


@pytest.mark.parametrize(
    ("identity", "version", "complaint"),
    [
        (TrajectoryId(0, 7), 0, "member 7 is not in a group of 2"),
        (TrajectoryId(0, 0), 2, "token_versions has 2, version 0 is being trained"),
        (TrajectoryId(0, 0), 1, ""),
    ],
    ids=["a member too many", "a version to come", "weights that were fetched early"],
)
def test_contradiction_of_a_trajectory_is_said(
    identity: TrajectoryId, version: int, complaint: str
) -> None:
    state = a_state()
    lease(state, 2)
    sent = delivered(a_trajectory(*identity, versions=(version,)))

    assert state.contradiction(sent) == complaint
    assert (state.accept(sent) is Outcome.MALFORMED) is bool(complaint)


def test_prompt_that_fails_too_often_is_dropped() -> None:
    state = a_state(group_size=2)
    for _ in range(MAX_FAILURES):
        group, member = lease(state, 1)[0]
        assert not state.has_failed(group)
        failed = FailedTrajectory(
            group=group, member=member, epoch=1, process=WORKER, error="too long"
        )
        assert state.fail(failed) is Outcome.FAILED

    assert state.has_failed(0)
    state.abandon(0)
    assert lease(state, 1)[0].group == 1
    assert 0 not in state.resume_point().open_groups


def unjudged(identity: TrajectoryId) -> FailedTrajectory:
    return FailedTrajectory(
        group=identity.group,
        member=identity.member,
        epoch=1,
        process=WORKER,
        error="the reward was not judged: TimeLimit: 5 s",
        unjudged="TimeLimit",
    )


def test_unjudged_member_is_left_out_of_its_group() -> None:
    state = a_state(group_size=3, batch_size=6)
    ids = lease(state, 6)
    assert state.leave_unjudged(unjudged(ids[1])) is Outcome.UNJUDGED
    for each in (ids[0], *ids[2:]):
        assert not state.batch()
        deliver(state, each)

    assert [each.id for each in state.batch()] == [ids[0], *ids[2:]]
    assert state.num_buffered == state.num_ready == len(ids)
    assert not state.lacks_rewards(0)
    assert deliver(state, ids[1]) is Outcome.DUPLICATE


@pytest.mark.parametrize(("group_size", "fewest"), [(1, 1), (2, 2), (3, 2), (8, 2)])
def test_group_needs_two_members_that_can_be_judged(group_size: int, fewest: int) -> None:
    state = a_state(group_size=group_size, batch_size=group_size)
    ids = lease(state, group_size)
    for num_judged, each in zip(range(group_size - 1, -1, -1), ids, strict=True):
        state.leave_unjudged(unjudged(each))
        assert state.lacks_rewards(0) is (num_judged < fewest)


def test_members_of_an_unjudged_one_are_made_again_when_stale() -> None:
    state = a_state(group_size=3, batch_size=3, max_staleness=0)
    ids = lease(state, 3)
    state.leave_unjudged(unjudged(ids[0]))
    for each in ids[1:]:
        deliver(state, each)
    state.commit(1, consumed=(), discarded=[ids[1], ids[2]])

    assert lease(state, 9) == ids[1:]
    for each in ids[1:]:
        deliver(state, each)
    assert [each.id for each in state.batch()] == ids[1:]
