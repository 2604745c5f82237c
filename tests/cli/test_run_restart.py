"""The rule for a process that ended."""

import pytest

from hetrl_cli.run.processes.restart import (
    Exit,
    Failed,
    Restart,
    RestartPolicy,
    Succeeded,
    after_exit,
)

POLICY = RestartPolicy(
    max_restarts=3, window_seconds=100, first_backoff_seconds=1, max_backoff_seconds=3
)


def an_exit(code: int, *, at: float = 0.0, said: str = "out of memory") -> Exit:
    return Exit(process="rollout-l4-0-0", code=code, last_line=said, at_seconds=at)


def test_process_that_ended_well_is_done() -> None:
    assert after_exit([an_exit(-9), an_exit(0, at=5)], POLICY) == Succeeded()


@pytest.mark.parametrize(
    ("deaths", "wait"),
    [(1, 1.0), (2, 2.0), (3, 3.0)],
    ids=["first: at once", "second: doubled", "third: capped"],
)
def test_process_that_died_is_restarted_after_a_growing_wait(deaths: int, wait: float) -> None:
    exits = [an_exit(1, at=float(number)) for number in range(deaths)]

    assert after_exit(exits, POLICY) == Restart(wait)


def test_process_that_dies_too_often_ends_the_run_with_reason() -> None:
    exits = [an_exit(1, at=float(number)) for number in range(4)]

    decision = after_exit(exits, POLICY)

    assert decision == Failed(
        "rollout-l4-0-0 ended with 1: out of memory; restarts are used up (at most 3 within 100 s)"
    )


def test_deaths_outside_the_window_are_forgiven() -> None:
    exits = [an_exit(1, at=at) for at in (0, 1, 2, 500)]

    assert after_exit(exits, POLICY) == Restart(1.0)


def test_terminal_exit_is_not_restarted_and_gives_the_reason() -> None:
    said = "NoLearningSignal: every group had equal rewards for 10 steps"

    assert after_exit([an_exit(3, said=said)], POLICY) == Failed(said)


def test_killed_process_is_named_with_its_signal() -> None:
    assert str(an_exit(-9, said="step 3")) == "rollout-l4-0-0 was killed by signal 9"
