import os
import signal
import time
from collections.abc import Iterator

import pytest

from hetrl_runtime.trainer.stop import StopRequested, StopSignal


@pytest.fixture
def stop() -> Iterator[StopSignal]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield StopSignal()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_wait_is_interrupted_at_once(stop, number):
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
