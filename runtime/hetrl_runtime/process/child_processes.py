"""Child processes of one pod: started together and ended together.

A divided model has one per GPU; colocated roles have one per program (``pod_commands.colocated``).
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType

Work = Callable[[], int]
"""What one process does; returns its exit code. It must be one that can be sent there by name."""

_PARENT_IS_GONE = 1
_GRACE_SECONDS = 20.0
"""Between asking colocated programs to stop and killing them."""
_SIGNALS_SECONDS = 1.0
"""How long a wait may keep a signal from its handler, where it came just before the wait began."""


def run_together(works: Sequence[Work], *, colocated: Sequence[Work] = ()) -> int:
    """Do every work in a process of its own, a single one in ours; return the pod's exit code.

    SIGTERM and SIGINT are passed on. The first process that fails decides the exit code, and
    the others, which could only wait for it, are killed. ``colocated`` programs are stopped when
    all ``works`` are done: no process would replace a pod that lived on without them.
    """
    if len(works) == 1 and not colocated:
        return works[0]()
    context = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = [
        context.Process(target=_one, args=(work,), name=f"pod-{number}")
        for number, work in enumerate((*works, *colocated))
    ]

    _start(processes)
    own, others = processes[: len(works)], processes[len(works) :]
    code = _code_of(own, others)
    if not code:
        _stop(others)
    for process in processes:
        process.kill()
    return code


def _start(processes: Sequence[BaseProcess]) -> None:
    """Start processes, and pass on to every one what this process is asked, during that too."""
    asked_meanwhile: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        del frame
        if any(process.pid is None for process in processes):
            # Sent now, it would not reach those that are still to be started.
            asked_meanwhile.append(number)
        else:
            _signal(processes, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    for process in processes:
        process.start()
    for asked in asked_meanwhile:
        _signal(processes, asked)


def _stop(processes: Sequence[BaseProcess]) -> None:
    """Ask processes to end, and give them time; their exit codes are ignored."""
    _signal(processes, signal.SIGTERM)
    ends_at = time.monotonic() + _GRACE_SECONDS
    for process in processes:
        process.join(max(0.0, ends_at - time.monotonic()))


def _signal(processes: Sequence[BaseProcess], number: int) -> None:
    for process in processes:
        if process.pid and process.exitcode is None:
            os.kill(process.pid, number)


def _code_of(awaited: Sequence[BaseProcess], others: Sequence[BaseProcess]) -> int:
    """Wait until all that are awaited have ended, or one of any has failed; return its code."""
    running = {process.sentinel: process for process in (*awaited, *others)}
    while any(process.exitcode is None for process in awaited):
        sentinels = wait(list(running), _SIGNALS_SECONDS)
        ended = [running.pop(each) for each in sentinels if isinstance(each, int)]
        for process in ended:
            process.join()
        if failed := [code for process in ended if (code := process.exitcode or 0)]:
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
    """End this process when its parent ends: no other process would end it."""
    wait([sentinel])
    os._exit(_PARENT_IS_GONE)
