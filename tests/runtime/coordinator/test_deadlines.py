"""Every wait of a run ends, with the reason in words."""

from dataclasses import replace

import pytest

from hetrl_runtime.coordinator.rules.deadlines import SignsOfLife, verdict

HEALTHY = SignsOfLife(
    started_at=0.0, trainer_seen_at=1000.0, workers_seen_at=1000.0, accepted_at=1000.0
)


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        pytest.param(
            {"workers_seen_at": None},
            "StartupDeadlineExceeded",
            "any rollout worker did not register within 60 s",
            id="no worker ever",
        ),
        pytest.param(
            {"trainer_seen_at": None, "workers_seen_at": None},
            "StartupDeadlineExceeded",
            "the trainer and any rollout worker did not register",
            id="no process ever",
        ),
        pytest.param(
            {"trainer_seen_at": 930.0},
            "TrainerFailed",
            "nothing was heard of the trainer for 70 s, the limit is 60 s",
            id="the trainer is gone",
        ),
        pytest.param(
            {"workers_seen_at": 930.0},
            "RolloutFailed",
            "nothing was heard of any rollout worker for 70 s",
            id="all workers are gone",
        ),
        pytest.param(
            {"inference_needed_since": 930.0},
            "StartupDeadlineExceeded",
            "any inference worker did not register within 60 s",
            id="no inference worker ever",
        ),
        pytest.param(
            {"inference_needed_since": 500.0, "inference_seen_at": 930.0},
            "InferenceFailed",
            "nothing was heard of any inference worker for 70 s",
            id="no inference worker any more",
        ),
        pytest.param(
            {"batch_out_since": 930.0},
            "TrainerFailed",
            "the trainer has not finished its batch for 60 s",
            id="the trainer is stuck",
        ),
        pytest.param(
            {"accepted_at": 930.0},
            "RolloutFailed",
            "no trajectory was accepted for 60 s",
            id="generation is stuck",
        ),
    ],
)
def test_run_that_hangs_fails_with_its_reason(
    changes: dict[str, float | None], reason: str, words: str
) -> None:
    signs = replace(HEALTHY, **changes)  # type: ignore[arg-type]  # a table of fields

    ending = verdict(signs, now=1000.0, deadline_seconds=60.0)

    assert ending
    assert ending.reason == reason
    assert words in ending.message


@pytest.mark.parametrize(
    "signs",
    [
        HEALTHY,
        SignsOfLife(started_at=990.0),
        replace(HEALTHY, batch_out_since=950.0, accepted_at=500.0),
        replace(HEALTHY, batch_out_since=200.0, longest_step_seconds=50.0),
        replace(HEALTHY, inference_needed_since=950.0),
        replace(HEALTHY, inference_needed_since=950.0, inference_seen_at=100.0),
        replace(HEALTHY, inference_seen_at=100.0),
        SignsOfLife(started_at=940.0),
        replace(HEALTHY, trainer_seen_at=940.0),
        replace(HEALTHY, batch_out_since=940.0),
        replace(HEALTHY, accepted_at=940.0),
    ],
    ids=[
        "all is well",
        "still starting",
        "training long after the last delivery",
        "slow steps",
        "a new plan's workers still start",
        "a plan has them again",
        "no plan has them any more",
        "starting for as long as it may",
        "the trainer silent for as long as it may be",
        "a batch out for as long as it may be",
        "no delivery for as long as there may be none",
    ],
)
def test_run_does_not_fail_before_its_deadline(signs: SignsOfLife) -> None:
    assert verdict(signs, now=1000.0, deadline_seconds=60.0) is None
