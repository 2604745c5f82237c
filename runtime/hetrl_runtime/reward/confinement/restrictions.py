"""Giving up what code of a stranger must not have, before it is loaded: for this process, for good.

A seccomp filter refuses sockets, other processes and changes to files; resource limits bound
memory. It needs no privilege, so it holds in a pod as on a laptop. Reading files is not
refused: what this user can read, the code can read, and has nobody to tell.

CPU time and the clock are the parent's to watch.
"""

import ctypes
import errno
import os
import platform
import resource
import struct
from dataclasses import dataclass

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_SECCOMP_MODE_FILTER = 2
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Classic BPF: load a word of the call, compare it, answer."""

_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_CLONE_THREAD = 0x00010000
_CHANGES_A_FILE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class UnconfinableError(OSError):
    """This machine cannot hold the code; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """System calls of one architecture, by what they would do."""

    audit_architecture: int
    refused: tuple[int, ...]
    opens: tuple[tuple[int, int], ...]
    """Those that open a file, with the place of their flags among the arguments."""

    clone: int
    unknown: tuple[int, ...] = (435, 437)
    """clone3 and openat2, whose flags a filter cannot see: callers fall back on the older ones."""


_NEW_EVERYWHERE = (424, 425, 434, 438, 440, 452)
"""pidfd_send_signal, io_uring_setup, pidfd_open, pidfd_getfd, process_madvise, fchmodat2."""

_MOUNTS = (428, 429, 430, 431, 432, 433, 442)
"""The newer calls that mount, numbered alike everywhere."""

_CALLS = {
    "x86_64": _Calls(
        audit_architecture=0xC000003E,
        refused=(
            *(41, 53),  # socket, socketpair
            *(57, 58, 59, 322),  # fork, vfork, execve, execveat
            *(62, 200, 234, 129, 297),  # kill, tkill, tgkill, sigqueue
            *(101, 310, 311),  # ptrace, process_vm
            *(160, 302, 272, 308, 321, 298, 323),  # limits, unshare, setns, bpf, perf, userfaultfd
            *(76, 82, 83, 84, 85, 86, 87, 88, 90, 92, 94, 132),  # truncate, rename … lchown, utime
            *(133, 165, 188, 235, 258, 259, 260, 261, 263, 264, 265, 266, 268, 280, 316),
            # What only root may, should it be root: chroot, reboot, modules, kexec, clocks, keys …
            *(155, 159, 161, 163, 164, 166, 167, 168, 169, 170, 172, 173, 175, 176, 179, 227),
            *(246, 248, 249, 250, 304, 313, 320),
        ),
        opens=((2, 1), (257, 2)),
        clone=56,
    ),
    "aarch64": _Calls(
        audit_architecture=0xC00000B7,
        refused=(
            *(198, 199),  # socket, socketpair
            *(221, 281),  # execve, execveat
            *(129, 130, 131, 138, 240),  # kill, tkill, tgkill, sigqueue
            *(117, 270, 271),  # ptrace, process_vm
            *(164, 261, 97, 268, 280, 241, 282),  # limits, unshare, setns, bpf, perf, userfaultfd
            *(5, 33, 34, 35, 36, 37, 38, 40, 45, 53, 54, 88, 276),  # changes to the file system
            # What only root may, should it be root.
            *(39, 41, 51, 60, 89, 104, 105, 106, 112, 142, 161, 170, 171, 217, 218, 219, 224),
            *(225, 265, 273, 294),
        ),
        opens=((56, 2),),
        clone=220,
    ),
}


def confine(*, memory_bytes: int) -> None:
    """Give everything up. Call it while there is but one thread.

    Raises:
        UnconfinableError: the machine or its kernel cannot refuse what must be refused.
    """
    calls = _CALLS.get(platform.machine())
    if platform.system() != "Linux" or calls is None:
        raise UnconfinableError(
            f"code of a job can only be confined on Linux on {' or '.join(_CALLS)}, "
            f"this is {platform.system()} on {platform.machine()}"
        )
    for kind, limit in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (limit, limit))
    _install(_program(calls))


def _program(calls: _Calls) -> bytes:
    """Return the filter: what is not refused is allowed."""
    steps = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_JUMP_EQUAL, calls.audit_architecture, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
        # The x32 numbers of the same calls.
        _step(_JUMP_AT_LEAST, 0x40000000, 0, 1),
        _step(_RETURN, _KILL),
    ]
    for number in (*calls.refused, *_NEW_EVERYWHERE, *_MOUNTS):
        steps += [_step(_JUMP_EQUAL, number, 0, 1), _step(_RETURN, _ERRNO | errno.EPERM)]
    for number in calls.unknown:
        steps += [_step(_JUMP_EQUAL, number, 0, 1), _step(_RETURN, _ERRNO | errno.ENOSYS)]
    for number, place in calls.opens:
        steps += _refuse_by_flags(number, place, _CHANGES_A_FILE, is_refused_where_set=True)
    steps += _refuse_by_flags(calls.clone, 0, _CLONE_THREAD, is_refused_where_set=False)
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _refuse_by_flags(
    number: int, place: int, flags: int, *, is_refused_where_set: bool
) -> list[bytes]:
    skip = (0, 1) if is_refused_where_set else (1, 0)
    return [
        _step(_JUMP_EQUAL, number, 0, 4),
        _step(_LOAD, _ARGUMENTS_AT + 8 * place),
        _step(_JUMP_SET, flags, *skip),
        _step(_RETURN, _ERRNO | errno.EPERM),
        _step(_RETURN, _ALLOW),
    ]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _install(program: bytes) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    steps = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
    for arguments in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0),
    ):
        if library.prctl(*arguments):
            reason = os.strerror(ctypes.get_errno())
            raise UnconfinableError(f"the kernel installs no seccomp filter: {reason}")
