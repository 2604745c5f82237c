import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

from hetrl_core.launch import Launch
from hetrl_core.plan.pod_sets import Rank
from hetrl_core.task import Task
from hetrl_runtime.process.child_processes import run_together
from tests.runtime.launches import a_launch

pytestmark = pytest.mark.slow

RANK = Rank(ordinal=0, local_gpu=0, task=Task.ACTOR_TRAINING, replica=0, stage=0, tensor_rank=0)
RANKS = [replace(RANK, local_gpu=gpu, tensor_rank=gpu) for gpu in range(2)]
FOREVER_SECONDS = 600


@pytest.fixture(autouse=True)
def _our_own_signals() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def a_folder(directory: Path) -> Path:
    folder = directory / "started"
    folder.mkdir()
    return folder


def note_and_end(launch: Launch, rank: Rank) -> int:
    (Path(launch.state_path) / str(rank.local_gpu)).touch()
    return 0


def say_that_it_was_asked(launch: Launch, rank: Rank) -> int:
    if end_when_asked(launch, rank) == 0:
        (Path(launch.state_path) / "asked").touch()
    return 0


def end_once_another_is_there(launch: Launch) -> int:
    folder = Path(launch.state_path)
    ends_at = time.monotonic() + FOREVER_SECONDS
    while not list(folder.iterdir()) and time.monotonic() < ends_at:
        time.sleep(0.01)
    return 0


def fail_on_the_second(rank: Rank) -> int:
    if rank.local_gpu == 1:
        return 3
    time.sleep(FOREVER_SECONDS)
    return 0


def end_when_asked(launch: Launch, rank: Rank) -> int:
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    note_and_end(launch, rank)
    # No event: setting one in a handler takes the lock that the interrupted wait may hold.
    ends_at = time.monotonic() + FOREVER_SECONDS
    while not asked and time.monotonic() < ends_at:
        time.sleep(0.01)
    return 0 if asked else 1


def test_ranks_have_a_process_each(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    launch = a_launch(tmp_path, state_path=str(folder))
    assert run_together([partial(note_and_end, launch, rank) for rank in RANKS]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["0", "1"]


def test_failed_process_ends_the_others_and_the_pod() -> None:
    assert run_together([partial(fail_on_the_second, rank) for rank in RANKS]) == 3


def test_signal_stops_all_processes(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    launch = a_launch(tmp_path, state_path=str(folder))

    def stop_once_all_are_there() -> None:
        while len(list(folder.iterdir())) < len(RANKS):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_once_all_are_there, daemon=True).start()
    assert run_together([partial(end_when_asked, launch, rank) for rank in RANKS]) == 0


def test_signal_during_start_reaches_later_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_folder(tmp_path)
    launch = a_launch(tmp_path, state_path=str(folder))
    start = SpawnProcess.start

    def start_and_be_asked(process: SpawnProcess) -> None:
        before = len(list(folder.iterdir()))
        start(process)
        while len(list(folder.iterdir())) == before:
            time.sleep(0.01)
        if before == 0:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(SpawnProcess, "start", start_and_be_asked)
    assert run_together([partial(end_when_asked, launch, rank) for rank in RANKS]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["0", "1"]


def test_colocated_program_stops_with_the_pods_own_work(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    launch = a_launch(tmp_path, state_path=str(folder))

    begun = time.monotonic()
    own = partial(end_once_another_is_there, launch)
    assert run_together([own], colocated=[partial(say_that_it_was_asked, launch, RANK)]) == 0

    assert (folder / "asked").exists()
    assert time.monotonic() - begun < FOREVER_SECONDS / 10


def test_failing_colocated_program_ends_the_pod() -> None:
    first, second = RANKS
    code = run_together(
        [partial(fail_on_the_second, first)], colocated=[partial(fail_on_the_second, second)]
    )
    assert code == 3
