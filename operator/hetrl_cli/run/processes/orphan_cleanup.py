"""Cleanup of processes that are orphaned when the owner of their run dies.

``python -m hetrl_cli.run.processes.orphan_cleanup`` reads process groups from its standard input,
one a line: ``+`` registers a group, which the group writes itself, ``-`` removes it. When the input
ends, it stops the registered groups. Unlike a parent-death signal, this stops their children too.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable

GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.1


def registered(lines: Iterable[str]) -> set[int]:
    """Return the process groups that are registered when the lines end."""
    groups: set[int] = set()
    for line in lines:
        group = int(line[1:])
        (groups.add if line[0] == "+" else groups.discard)(group)
    return groups


def send(group: int, number: signal.Signals) -> bool:
    """Signal a process group; tell whether it exists."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def stop(groups: Iterable[int], *, grace_seconds: float) -> None:
    """Ask the groups to end, wait, then kill what is left."""
    left = {group for group in groups if send(group, signal.SIGTERM)}
    deadline = time.monotonic() + grace_seconds
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        left = {group for group in left if _exists(group)}
    for group in left:
        send(group, signal.SIGKILL)


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    stop(registered(sys.stdin), grace_seconds=GRACE_SECONDS)
