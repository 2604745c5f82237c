"""Limits of resources that reward code has for the life of its process, and cannot raise."""

import resource

MAX_OPEN_FILES = 256

_NO_CORE_BYTES = 1
"""Not 0, which the kernel ignores where it hands core dumps to a program of the machine."""


def set_limits(*, memory_bytes: int, cpu_seconds: int) -> None:
    """Set every limit for this process, soft and hard alike.

    Args:
        memory_bytes: of address space.
        cpu_seconds: of all processors together; the kernel then ends the process with SIGKILL.
    """
    for kind, limit in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, _NO_CORE_BYTES),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        # Queued signals count for all processes of the user together.
        (resource.RLIMIT_SIGPENDING, 0),
        (resource.RLIMIT_RTPRIO, 0),
        (resource.RLIMIT_NICE, 0),
    ):
        _, highest = resource.getrlimit(kind)
        # The worker may have been started with a lower one, which no user may raise.
        allowed = limit if highest == resource.RLIM_INFINITY else min(limit, highest)
        resource.setrlimit(kind, (allowed, allowed))


def may_dump_core() -> bool:
    """Tell whether a crash of this process would still be handed to a program of the machine."""
    return resource.getrlimit(resource.RLIMIT_CORE)[0] != _NO_CORE_BYTES
