"""The system calls that reward code may make, on each architecture, and with which arguments.

A call that is neither here nor in ``call_numbers`` is refused, so a new kernel opens no new way.
``seccomp_filter`` translates the list.
"""

from hetrl_runtime.reward.confinement.call_numbers import ALWAYS_ALLOWED, Numbers
from hetrl_runtime.reward.confinement.seccomp_filter import Condition, Filter, Has, OneOf, Within

# Calls that are allowed with some arguments.
_OPEN: Numbers = (2, None)
_OPENAT: Numbers = (257, 56)
_MMAP: Numbers = (9, 222)
_MADVISE: Numbers = (28, 233)
_FCNTL: Numbers = (72, 25)
_IOCTL: Numbers = (16, 29)
_CLONE: Numbers = (56, 220)
_PRCTL: Numbers = (157, 167)
_PRLIMIT: Numbers = (302, 261)
_KILL: Numbers = (62, 129)
_TGKILL: Numbers = (234, 131)

# clone3 and openat2 hide their flags behind a pointer, where a filter cannot see them.
_UNKNOWN = (435, 437)
_UNKNOWN_FROM = 463
"""The calls of Linux 6.8 and older are decided on here."""

_CLONE_THREAD = 0x00010000
_THREAD_FLAGS = 0x007D0F00
"""What glibc and musl ask of a thread: it shares memory, files, signals and the process."""

_FCNTL_COMMANDS = (0, 1, 2, 3, 1030)
"""F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC."""

_F_SETFL = 4
_STATUS_FLAGS = 0x00028C03
"""For F_SETFL: access mode, O_APPEND, O_NONBLOCK, O_LARGEFILE of either architecture. Without
O_ASYNC, which makes the kernel send signals to the owner of a file."""

_IOCTL_COMMANDS = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""

_PRCTL_OPTIONS = (15, 16, 0x53564D41)
"""PR_SET_NAME, PR_GET_NAME, PR_SET_VMA: names of this thread and of its memory."""

_MAP_FLAGS = 0x0013D93B
"""Every common flag of mmap but MAP_LOCKED and MAP_HUGETLB, which take memory from the machine."""

_ADVICE = (0, 1, 2, 3, 4, 8, 14, 15, 16, 17, 102, 103)
"""NORMAL, RANDOM, SEQUENTIAL, WILLNEED, DONTNEED, FREE, HUGEPAGE, NOHUGEPAGE, DONTDUMP, DODUMP,
GUARD_INSTALL, GUARD_REMOVE: advice on memory of this process."""

_OPEN_FLAGS = (0x000B8900, 0x000AC900)
"""O_NOCTTY, O_NONBLOCK, O_CLOEXEC and the architecture's O_DIRECTORY, O_NOFOLLOW, O_LARGEFILE:
for reading, and without O_CREAT."""

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""By machine: the place of its numbers in the tables, and its name in the audit system."""

ARCHITECTURES = tuple(_ARCHITECTURES)


def filter_of(machine: str, *, pid: int) -> Filter:
    """Return what the process ``pid`` may call on a machine of ``ARCHITECTURES``."""
    at, audit_architecture = _ARCHITECTURES[machine]
    return Filter(
        audit_architecture=audit_architecture,
        allowed=tuple(
            number for both in ALWAYS_ALLOWED.values() if (number := both[at]) is not None
        ),
        conditional=tuple(
            (number, conditions)
            for both, conditions in _conditional(_OPEN_FLAGS[at], pid)
            if (number := both[at]) is not None
        ),
        unknown=_UNKNOWN,
        unknown_from=_UNKNOWN_FROM,
    )


def _conditional(open_flags: int, pid: int) -> tuple[tuple[Numbers, tuple[Condition, ...]], ...]:
    to_itself = (OneOf(0, (pid,)),)
    return (
        (_MMAP, (Within(3, _MAP_FLAGS),)),
        (_OPENAT, (Within(2, open_flags),)),
        (_OPEN, (Within(1, open_flags),)),
        (_MADVISE, (OneOf(2, _ADVICE),)),
        (_IOCTL, (OneOf(1, _IOCTL_COMMANDS),)),
        (_FCNTL, (OneOf(1, _FCNTL_COMMANDS),)),
        (_FCNTL, (OneOf(1, (_F_SETFL,)), Within(2, _STATUS_FLAGS))),
        (_CLONE, (Within(0, _THREAD_FLAGS), Has(0, _CLONE_THREAD))),
        (_PRCTL, (OneOf(0, _PRCTL_OPTIONS),)),
        # Reading its own limits: no other process, and no new limit (a null pointer).
        (_PRLIMIT, (OneOf(0, (0,)), OneOf(2, (0,)), OneOf(2, (0,), is_high_half=True))),
        (_KILL, to_itself),
        (_TGKILL, to_itself),
    )
