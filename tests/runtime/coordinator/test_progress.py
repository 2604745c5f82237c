"""Progress reports: figures, and the reason why the run waits."""

from collections import deque
from dataclasses import replace

import pytest

from hetrl_core.task import Role
from hetrl_runtime.coordinator.reporting.progress import Progresses, RunSnapshot, waiting_for
from hetrl_runtime.coordinator.rules.members import Member, Members
from hetrl_runtime.wire.values import Ending, ProcessStatus
from tests.runtime.trajectories import a_trajectory, delivered

BUSY = RunSnapshot(
    version=4,
    has_trainer=True,
    num_workers=2,
    ready=120,
    buffered=130,
    running=638,
    capacity=5,
    batch_size=256,
)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"has_trainer": False}, "the trainer is not here yet"),
        ({"num_workers": 0}, "no rollout worker is here yet"),
        ({"lacks_inference": True}, "no inference worker is here yet"),
        (
            {"awaits_rows": True},
            "the rows of the data are checked before the first prompt goes out",
        ),
        ({"is_trained": True}, "the trainer writes the checkpoint of the last version"),
        (
            {"trainer_waits": True},
            "the trainer waits for a full batch: 120 of 256 trajectories are in whole groups, "
            "638 are being generated",
        ),
        (
            {"workers_waiting": 1, "capacity": 0},
            "rollouts wait: 768 trajectories are promised, "
            "the bound allows no more until version 5",
        ),
        (
            {"workers_waiting": 2, "workers_behind": 2, "trainer_waits": True},
            "rollouts wait: the weights of 2 workers are too old for version 4",
        ),
    ],
    ids=[
        "nothing",
        "no trainer",
        "no workers",
        "no inference worker",
        "rows",
        "the end",
        "the batch",
        "the bound",
        "old weights",
    ],
)
def test_progress_says_what_is_awaited(changes: dict[str, int], words: str) -> None:
    assert waiting_for(replace(BUSY, **changes)) == words  # type: ignore[arg-type]


def test_figures_follow_from_the_last_steps() -> None:
    progresses = Progresses(total_steps=10, predicted_step_seconds=3.0)
    progresses.begin(now=100.0)
    assert progresses.message(BUSY, Members(), ending=None).eta_seconds == 6 * 3.0

    for version, now in ((0, 102.0), (1, 106.0)):
        ages = (0, 0, 0, version)
        consumed = [
            delivered(a_trajectory(group, versions=(version - age,), reward=group % 2))
            for group, age in enumerate(ages)
        ]
        progresses.commit(consumed, version=version, now=now)
    message = progresses.message(replace(BUSY, version=2), Members(), ending=None)

    assert message.samples_per_second == pytest.approx(8 / 6)
    assert message.eta_seconds == pytest.approx(8 * 3.0)
    assert message.reward_mean == 0.5
    assert message.staleness_mean == pytest.approx(1 / 8)
    assert (message.staleness_p95, message.staleness_max) == (1.0, 1.0)
    assert progresses.longest_step_seconds == 4.0


def test_reward_parts_are_means_over_those_that_have_them() -> None:
    progresses = Progresses(total_steps=10, predicted_step_seconds=None)
    parts = ({"correct": 1.0, "form": 0.5}, {"correct": 0.0}, {"form": -1.5})

    progresses.commit(
        [delivered(a_trajectory(member=n, reward_parts=each)) for n, each in enumerate(parts)],
        version=0,
        now=1.0,
    )

    message = progresses.message(BUSY, Members(), ending=None)
    assert dict(message.reward_parts) == {"correct": 0.5, "form": -0.5}


def test_ended_run_says_how() -> None:
    progresses = Progresses(total_steps=10, predicted_step_seconds=None)
    ending = Ending(reason="NoLearningSignal", message="all rewards were 0")

    message = progresses.message(replace(BUSY, trainer_waits=True), Members(), ending=ending)

    assert message.finished
    assert (message.outcome, message.reason) == ("Failed", "NoLearningSignal")
    assert (message.message, message.waiting_for) == ("all rewards were 0", "")


def a_member(process: str, *said: tuple[float, ProcessStatus]) -> Member:
    return Member(
        process=process,
        role=Role.ROLLOUT,
        pod_set="rollout-l4-0",
        instance="first",
        seen_at=0.0,
        said=deque(said),
    )


def test_rates_and_idle_shares_are_of_the_last_seconds() -> None:
    member = a_member("rollout-0")
    for now, tokens, idle in ((0.0, 0, 0.0), (5.0, 100, 1.0), (18.0, 750, 4.0), (20.0, 1000, 5.0)):
        status = ProcessStatus(generated_tokens=tokens, idle_seconds=idle, busy_seconds=now - idle)
        member.hear(status, now=now)

    # What was said before the window of 15 s does not count.
    assert member.tokens_per_second == pytest.approx((1000 - 100) / 15)
    assert member.idle_ratio == pytest.approx(4 / 15)


def test_restarted_process_starts_its_counts_again() -> None:
    member = a_member("rollout-0")
    member.hear(ProcessStatus(generated_tokens=5000), now=0.0)
    member.hear(ProcessStatus(generated_tokens=10), now=1.0)

    assert member.tokens_per_second == 0.0


def test_new_start_of_a_process_replaces_the_first() -> None:
    members = Members()
    first = a_member("rollout-0")

    assert members.enter(first) is None
    assert members.enter(replace(first, seen_at=3.0)) is None
    assert members.enter(replace(first, instance="second")) is not None


def test_departed_process_keeps_its_last_time() -> None:
    members = Members()
    assert members.seen_at(Role.ROLLOUT) is None
    members.enter(replace(a_member("rollout-0"), seen_at=7.0))

    members.leave("rollout-0")

    assert members.num(Role.ROLLOUT) == 0
    assert members.seen_at(Role.ROLLOUT) == 7.0
