"""Our own writes, until watches show them, whichever of the two comes first."""

from dataclasses import dataclass

import pytest

from hetrl_operator.cache.pending_writes import FORGOTTEN_AFTER_SECONDS, PendingWrites

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
def pending_writes(clock: Clock) -> PendingWrites[str]:
    return PendingWrites(clock=clock)


def test_write_counts_until_its_watch_catches_up(pending_writes: PendingWrites[str]) -> None:
    pending_writes.wrote(POD, "ours", resource_version="7")

    pending_writes.shown(POD, resource_version="6", is_deleted=False)
    assert pending_writes.get(POD) == "ours"
    pending_writes.shown(POD, resource_version="7", is_deleted=False)

    assert pending_writes.get(POD) is None


@pytest.mark.parametrize("version", ["7", "9"])
def test_watch_that_was_faster_than_the_answer_counts(
    pending_writes: PendingWrites[str], version: str
) -> None:
    pending_writes.shown(POD, resource_version=version, is_deleted=False)

    pending_writes.wrote(POD, "ours", resource_version="7")

    assert pending_writes.get(POD) is None


def test_late_response_does_not_revive_a_deleted_object(
    pending_writes: PendingWrites[str],
) -> None:
    pending_writes.shown(POD, resource_version="9", is_deleted=True)

    pending_writes.wrote(POD, "ours", resource_version="7")
    assert pending_writes.get(POD) is None
    pending_writes.wrote(POD, "another of that name", resource_version="11")

    assert pending_writes.get(POD) == "another of that name"


def test_write_that_no_watch_shows_is_forgotten(
    pending_writes: PendingWrites[str], clock: Clock
) -> None:
    pending_writes.wrote(POD, "ours", resource_version="7")

    clock.now += FORGOTTEN_AFTER_SECONDS + 1

    assert pending_writes.get(POD) is None


def test_ends_are_not_remembered_for_ever(pending_writes: PendingWrites[str], clock: Clock) -> None:
    for number in range(100):
        pending_writes.shown(("Pod", "default", str(number)), resource_version="9", is_deleted=True)
        clock.now += FORGOTTEN_AFTER_SECONDS / 10

    assert len(pending_writes._ended) <= 12


def test_writes_are_found_by_the_job_that_they_belong_to(
    pending_writes: PendingWrites[str], clock: Clock
) -> None:
    other = ("Pod", "default", "code-trainer-0")
    pending_writes.wrote(POD, "ours", resource_version="7", owner="math")
    pending_writes.wrote(other, "theirs", resource_version="8", owner="code")
    pending_writes.wrote(("Service", "default", "math"), "ours", resource_version="9", owner="math")

    assert pending_writes.of("Pod", "math") == {"math-trainer-0": "ours"}
    pending_writes.wrote(POD, "another job's by now", resource_version="10", owner="later")

    assert pending_writes.of("Pod", "math") == {}
    assert pending_writes.of("Pod", "later") == {"math-trainer-0": "another job's by now"}
    pending_writes.shown(POD, resource_version="10", is_deleted=False)
    assert pending_writes.of("Pod", "later") == {}
    clock.now += FORGOTTEN_AFTER_SECONDS + 1
    assert pending_writes.of("Pod", "code") == {}
    assert len(pending_writes._owned) == 1, "entries of other owners are left"
