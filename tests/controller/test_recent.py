"""Our own writes, until watches show them, whichever of the two comes first."""

from dataclasses import dataclass

import pytest

from hetrl_operator.cache.pending_writes import FORGOTTEN_AFTER_SECONDS, RecentWrites

POD = ("Pod", "default", "math-trainer-0")


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recent(clock: Clock) -> RecentWrites[str]:
    return RecentWrites(clock=clock)


def test_a_write_counts_until_its_watch_catches_up(recent: RecentWrites[str]) -> None:
    recent.wrote(POD, "ours", resource_version="7")

    recent.shown(POD, resource_version="6", is_deleted=False)
    assert recent.get(POD) == "ours"
    recent.shown(POD, resource_version="7", is_deleted=False)

    assert recent.get(POD) is None


@pytest.mark.parametrize("version", ["7", "9"])
def test_a_watch_that_was_faster_than_the_answer_counts(
    recent: RecentWrites[str], version: str
) -> None:
    recent.shown(POD, resource_version=version, is_deleted=False)

    recent.wrote(POD, "ours", resource_version="7")

    assert recent.get(POD) is None


def test_what_ended_before_the_answer_came_does_not_come_back(recent: RecentWrites[str]) -> None:
    recent.shown(POD, resource_version="9", is_deleted=True)

    recent.wrote(POD, "ours", resource_version="7")
    assert recent.get(POD) is None
    recent.wrote(POD, "another of that name", resource_version="11")

    assert recent.get(POD) == "another of that name"


def test_a_write_that_no_watch_shows_is_forgotten(recent: RecentWrites[str], clock: Clock) -> None:
    recent.wrote(POD, "ours", resource_version="7")

    clock.now += FORGOTTEN_AFTER_SECONDS + 1

    assert recent.get(POD) is None


def test_ends_are_not_remembered_for_ever(recent: RecentWrites[str], clock: Clock) -> None:
    for number in range(100):
        recent.shown(("Pod", "default", str(number)), resource_version="9", is_deleted=True)
        clock.now += FORGOTTEN_AFTER_SECONDS / 10

    assert len(recent._ended) <= 12


def test_writes_are_found_by_the_job_that_they_belong_to(
    recent: RecentWrites[str], clock: Clock
) -> None:
    other = ("Pod", "default", "code-trainer-0")
    recent.wrote(POD, "ours", resource_version="7", owner="math")
    recent.wrote(other, "theirs", resource_version="8", owner="code")
    recent.wrote(("Service", "default", "math"), "ours", resource_version="9", owner="math")

    assert recent.of("Pod", "math") == {"math-trainer-0": "ours"}
    recent.wrote(POD, "another job's by now", resource_version="10", owner="later")

    assert recent.of("Pod", "math") == {}
    assert recent.of("Pod", "later") == {"math-trainer-0": "another job's by now"}
    recent.shown(POD, resource_version="10", is_deleted=False)
    assert recent.of("Pod", "later") == {}
    clock.now += FORGOTTEN_AFTER_SECONDS + 1
    assert recent.of("Pod", "code") == {}
    assert len(recent._owned) == 1, "of what nobody asks for any more"
