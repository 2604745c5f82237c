"""The resource use of a process, read from /proc; its children are counted separately."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_KIB_PER_MIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One reading."""

    at: float
    cpu_seconds: float
    resident_mib: float
    peak_mib: float
    children_mib: float
    """Resident memory of all processes that it started: planners."""

    def cpu_share_since(self, before: Taken) -> float:
        """Return the share of one core that was used since another reading."""
        return (self.cpu_seconds - before.cpu_seconds) / (self.at - before.at)


def taken(pid: int) -> Taken:
    """Read what a process has taken so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return Taken(
        at=time.monotonic(),
        cpu_seconds=(int(fields[11]) + int(fields[12])) / _TICKS,
        resident_mib=_memory_mib(pid, "VmRSS"),
        peak_mib=_memory_mib(pid, "VmHWM"),
        children_mib=sum(_memory_mib(child, "VmRSS") for child in _children(pid)),
    )


def load_average() -> float:
    """Return how many processes wanted a core in the last minute: what else ran beside us."""
    return round(os.getloadavg()[0], 1)


def _memory_mib(pid: int, field: str) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    return next((int(each.split()[1]) / _KIB_PER_MIB for each in lines if field in each), 0.0)


def _children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for each in threads for child in (each / "children").read_text().split()]
