"""Members and start of broadcast rounds."""

import pytest

from hetrl_runtime.broadcast.rounds import GATHER_SECONDS, Attendant, Gathering


def who(process: str, *, instance: str = "first", gpu: str = "") -> Attendant:
    return Attendant(process=process, instance=instance, gpu=gpu)


def a_gathering(*attendants: Attendant, gpu: str = "") -> Gathering:
    gathering = Gathering(trainer="t", gpu=gpu)
    for each in attendants:
        gathering.enter(each, now=0.0)
    return gathering


def test_round_without_waiting_workers_has_no_deadline() -> None:
    assert a_gathering().seconds_left(now=100.0) is None


def test_first_waits_for_others_only_so_long() -> None:
    gathering = a_gathering(who("a"))
    gathering.enter(who("b"), now=GATHER_SECONDS / 2)
    assert gathering.seconds_left(now=GATHER_SECONDS / 2) == GATHER_SECONDS / 2
    assert gathering.seconds_left(now=GATHER_SECONDS) == 0.0
    assert [each.process for each in gathering.begin().attendants] == ["a", "b"]
    assert gathering.seconds_left(now=GATHER_SECONDS) is None


def test_round_starts_when_all_former_members_are_here() -> None:
    gathering = a_gathering(who("a"), who("b"))
    first = gathering.begin()
    gathering.enter(who("b"), now=9.0)
    assert gathering.seconds_left(now=9.0) == GATHER_SECONDS
    gathering.enter(who("a"), now=9.1)
    assert gathering.seconds_left(now=9.1) == 0.0
    # And they are connected already.
    assert gathering.begin() == first


@pytest.mark.parametrize(
    "then",
    [
        pytest.param((who("a"),), id="one left"),
        pytest.param((who("a"), who("b"), who("c")), id="one joined"),
        pytest.param((who("a"), who("b", instance="second")), id="one was restarted"),
    ],
)
def test_changed_members_meet_in_another_group(then: tuple[Attendant, ...]) -> None:
    gathering = a_gathering(who("a"), who("b"))
    first = gathering.begin()
    for each in then:
        gathering.enter(each, now=1.0)
    second = gathering.begin()
    assert second.attendants == then
    assert second.group != first.group


def test_restarted_worker_replaces_its_former_instance() -> None:
    gathering = a_gathering(who("a"), who("a", instance="second"))
    gathering.leave(who("a"))
    assert gathering.begin().attendants == (who("a", instance="second"),)


def test_leaving_member_is_not_invited() -> None:
    gathering = a_gathering(who("a"), who("b"))
    gathering.leave(who("a"))
    assert gathering.begin().attendants == (who("b"),)


def test_members_form_a_new_group_after_a_failure() -> None:
    gathering = a_gathering(who("a"))
    first = gathering.begin()
    gathering.fail()
    gathering.enter(who("a"), now=1.0)
    # No member is expected any more.
    assert gathering.seconds_left(now=1.0) == GATHER_SECONDS
    assert gathering.begin().group != first.group


@pytest.mark.parametrize(
    ("gpus", "over_nccl"),
    [
        pytest.param(("0", "1", "2"), True, id="a GPU each"),
        pytest.param(("0", "1", ""), False, id="a worker without one"),
        pytest.param(("", "1", "2"), False, id="a trainer without one"),
        pytest.param(("0", "1", "1"), False, id="two share one, which NCCL refuses"),
    ],
)
def test_nccl_joins_those_that_have_a_gpu_each(gpus: tuple[str, ...], over_nccl: bool) -> None:
    trainer, *workers = gpus
    attendants = (who(str(number), gpu=gpu) for number, gpu in enumerate(workers))
    gathering = a_gathering(*attendants, gpu=trainer)
    assert gathering.begin().over_nccl is over_nccl


def test_nccl_is_not_tried_again_after_it_failed() -> None:
    gathering = a_gathering(who("a", gpu="1"), gpu="0")
    assert gathering.begin().over_nccl
    gathering.fail()
    gathering.enter(who("a", gpu="1"), now=1.0)
    assert not gathering.begin().over_nccl
