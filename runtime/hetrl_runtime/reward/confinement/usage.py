"""Resources that a process has used so far, and whether they exceed the limits.

The kernel's own limits end a process that uses too much in its whole life (``limits``); these
numbers are for what one response may use, which the code could otherwise take by ignoring a
signal.
"""

import math
import os
import resource
from dataclasses import dataclass
from pathlib import Path

MAX_THREADS = 256
"""Of one process. RLIMIT_NPROC counts all processes of the user, on some nodes those of other
pods as well, so it would refuse threads to code that has none."""

GRACE_SECONDS = 0.5
"""Beyond the soft limit: the kernel's signal, if the code leaves it alone, comes first."""

TOO_MUCH_CPU = "it uses more processor time than cpuSeconds allows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Resources that a process has used since its start."""

    cpu_seconds: float
    """Of all processors together."""

    threads: int


def usage_of(pid: int) -> Usage:
    """Read what a process has used.

    Raises:
        OSError: there is no such process.
    """
    # In bytes: the process chooses its name, which stands in brackets and need not be text.
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return Usage(cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"), threads=int(fields[17]))


def excess(usage: Usage, *, until_cpu_seconds: float) -> str | None:
    """Return what a process has too much of, in words; None if it keeps within its limits."""
    if usage.cpu_seconds > until_cpu_seconds + GRACE_SECONDS:
        return TOO_MUCH_CPU
    if usage.threads > MAX_THREADS:
        return f"it has {usage.threads} threads, at most {MAX_THREADS} are allowed"
    return None


def allow_cpu_seconds(pid: int, seconds: int) -> float | None:
    """Let a process use some seconds more, after which the kernel sends SIGXCPU.

    Returns:
        The processor time, since the start of the process, at which they are used up; None if
        that is too close to the hard limit of its life, which a parent without privileges
        cannot raise.

    Raises:
        OSError: there is no such process.
    """
    until = math.ceil(usage_of(pid).cpu_seconds) + seconds
    _, hard = resource.prlimit(pid, resource.RLIMIT_CPU)
    if hard != resource.RLIM_INFINITY and until + GRACE_SECONDS > hard:
        return None
    resource.prlimit(pid, resource.RLIMIT_CPU, (until, hard))
    return until
