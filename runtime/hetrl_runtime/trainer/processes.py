"""The processes of one trainer's pod: one a GPU, started together and ended together.

A pod with one GPU needs none but its own. What each does is the command's; who waits for whom
across pods, ``peers``'.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType

from hetrl_core.launch import Launch
from hetrl_core.podset import Rank

Work = Callable[[Launch, Rank], int]
"""What one process does; returns its exit code. It must be importable by name."""

_PARENT_IS_GONE = 1


def run_together(work: Work, launch: Launch, ranks: Sequence[Rank]) -> int:
    """Do ``work`` for every rank in a process of its own; return the pod's exit code.

    SIGTERM and SIGINT are passed on. The first process that fails says how the pod ends, and
    the others, which could only wait for it, are killed.
    """
    context = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = [
        context.Process(target=_one, args=(work, launch, rank), name=f"rank-{rank.local_gpu}")
        for rank in ranks
    ]

    def pass_on(number: int, frame: FrameType | None) -> None:
        del frame
        for process in processes:
            if process.pid and process.exitcode is None:
                os.kill(process.pid, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    for process in processes:
        process.start()
    return _code_of(processes)


def _code_of(processes: Sequence[BaseProcess]) -> int:
    running = {process.sentinel: process for process in processes}
    while running:
        ended = [running.pop(each) for each in wait(list(running)) if isinstance(each, int)]
        for process in ended:
            process.join()
        codes = [process.exitcode or 0 for process in ended]
        if failed := [code for code in codes if code]:
            for process in running.values():
                process.kill()
            # Ended by a signal: -9 and the like.
            return max(failed) if max(failed) > 0 else 1
    return 0


def _one(work: Work, launch: Launch, rank: Rank) -> None:
    parent = multiprocessing.parent_process()
    if parent:
        watch = threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True)
        watch.start()
    sys.exit(work(launch, rank))


def _end_with(sentinel: int) -> None:
    """End this process when its parent ends: nobody would be left to end it."""
    wait([sentinel])
    os._exit(_PARENT_IS_GONE)
