"""The processes of one pod that are more than its own: started together and ended together.

One a GPU where a model is divided, one a program where GPUs do several roles' work. What each does
is its command's; what runs beside a pod's own program, ``beside``'s.
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

Work = Callable[[], int]
"""What one process does; returns its exit code. It must be one that can be sent there by name."""

_PARENT_IS_GONE = 1


def run_together(works: Sequence[Work]) -> int:
    """Do every work in a process of its own, a single one in ours; return the pod's exit code.

    SIGTERM and SIGINT are passed on. The first process that fails says how the pod ends, and
    the others, which could only wait for it, are killed.
    """
    if len(works) == 1:
        return works[0]()
    context = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = [
        context.Process(target=_one, args=(work,), name=f"pod-{number}")
        for number, work in enumerate(works)
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


def _one(work: Work) -> None:
    parent = multiprocessing.parent_process()
    if parent:
        watch = threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True)
        watch.start()
    sys.exit(work())


def _end_with(sentinel: int) -> None:
    """End this process when its parent ends: nobody would be left to end it."""
    wait([sentinel])
    os._exit(_PARENT_IS_GONE)
