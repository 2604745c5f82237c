"""Irrevocable restrictions of this process before it loads reward code.

``system_calls`` and ``seccomp_filter`` restrict system calls, ``landlock`` and ``readable`` files,
and ``limits`` resources. None of it needs a privilege, so it holds in a pod as on a laptop, and for
root. The parent limits the processor time of one response.
"""

import os
import platform
import signal
from dataclasses import dataclass
from pathlib import Path

from hetrl_runtime.reward.confinement import kernel, landlock
from hetrl_runtime.reward.confinement.limits import may_dump_core, set_limits
from hetrl_runtime.reward.confinement.readable import readable
from hetrl_runtime.reward.confinement.seccomp_filter import program
from hetrl_runtime.reward.confinement.system_calls import ARCHITECTURES, filter_of


class UnconfinableError(OSError):
    """This machine cannot hold the code; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Restrictions of a process that runs reward code."""

    memory_bytes: int
    life_cpu_seconds: int
    """Of all processors, for the whole life of the process."""

    parent: int
    """The process that asks; the confined process ends with it."""

    private: Path | None = None
    """A folder that the code may not read, even where it lies below one that it may."""


def confine(file: Path, bounds: Bounds) -> None:
    """Give up everything that the code of ``file`` does not need.

    Raises:
        UnconfinableError: this machine or its kernel cannot refuse what must be refused.
    """
    machine = platform.machine()
    if platform.system() != "Linux" or machine not in ARCHITECTURES:
        raise UnconfinableError(
            f"code of a job can only be confined on Linux on {' or '.join(ARCHITECTURES)}, "
            f"this is {platform.system()} on {machine}"
        )
    if (threads := len(list(Path("/proc/self/task").iterdir()))) != 1:
        # Landlock, capabilities and the filter hold for the thread that asks for them.
        raise UnconfinableError(
            f"code of a job can only be confined in a process of one thread, this one has "
            f"{threads}: something that Python loads at its start (a .pth file, sitecustomize) "
            "starts threads"
        )
    set_limits(memory_bytes=bounds.memory_bytes, cpu_seconds=bounds.life_cpu_seconds)
    try:
        _give_up(file, bounds.private, machine)
        _end_with(bounds.parent)
        kernel.install_filter(program(filter_of(machine, pid=os.getpid())))
    except OSError as error:
        raise UnconfinableError(f"the kernel does not confine code of a job: {error}") from error


def _give_up(file: Path, private: Path | None, machine: str) -> None:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if may_dump_core():
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    if landlock.version():
        # Where root runs the worker, the code may lie in a folder of another user.
        kernel.keep_capabilities(machine, kernel.CAP_DAC_READ_SEARCH)
        landlock.allow_reading(readable(file, private=private))
    else:
        kernel.keep_capabilities(machine)


def _end_with(parent: int) -> None:
    """Ask the kernel to end this process with its parent's thread that started it."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have ended before the line above; nothing would ever end this process.
    if os.getppid() != parent:
        raise UnconfinableError(f"the process that asks, {parent}, has ended")
