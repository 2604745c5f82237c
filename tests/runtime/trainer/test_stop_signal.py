import os
import signal
import time
from collections.abc import Iterator

import pytest

from hetrl_runtime.trainer.stop_signal import StopRequested, StopSignal


@pytest.fixture
def stop() -> Iterator[StopSignal]:
    before = {
        number: signal.getsignal(number)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)
    }
    yield StopSignal()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_wait_is_interrupted_at_once(stop, number):
    def wait() -> None:
        with stop.interrupts():
            os.kill(os.getpid(), number)
            time.sleep(60)

    with pytest.raises(StopRequested):
        wait()


def test_work_is_finished_and_the_next_wait_does_not_begin(stop):
    work = []

    os.kill(os.getpid(), signal.SIGTERM)
    work.append("done")
    with pytest.raises(StopRequested), stop.interrupts():
        work.append("waited")

    assert work == ["done"]


def test_work_worth_finishing_gets_its_time(stop):
    with stop.interrupts(after_seconds=60):
        os.kill(os.getpid(), signal.SIGTERM)

    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("is_stopped_before", [True, False], ids=["before", "within"])
def test_endless_work_is_interrupted_after_its_time(stop, is_stopped_before):
    def wait() -> None:
        if is_stopped_before:
            os.kill(os.getpid(), signal.SIGTERM)
        with stop.interrupts(after_seconds=0.05):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)

    with pytest.raises(StopRequested):
        wait()
