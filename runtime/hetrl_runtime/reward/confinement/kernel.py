"""Calls to the kernel that Python's library does not have, for a process that confines itself."""

import ctypes
import os
import struct
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_SECCOMP_MODE_FILTER = 2
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION_3 = 0x20080522
CAP_DAC_READ_SEARCH = 2

_library = ctypes.CDLL(None, use_errno=True)
_library.syscall.restype = ctypes.c_long


def call(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call; integers are passed as 64 bits.

    Raises:
        OSError: the kernel refused; ``errno`` says why.
    """
    passed = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result: int = _library.syscall(ctypes.c_long(number), *passed)
    return _checked(result)


def prctl(option: int, *arguments: int | bytes) -> None:
    """Change an attribute of this process; missing arguments are 0.

    Raises:
        OSError: the kernel refused; ``errno`` says why.
    """
    passed = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]
    passed += [ctypes.c_ulong(0)] * (4 - len(passed))
    _checked(_library.prctl(option, *passed))


def install_filter(program: bytes) -> None:
    """Install a seccomp filter in this thread and those that it starts.

    Raises:
        OSError: the kernel has no seccomp, or ``PR_SET_NO_NEW_PRIVS`` was not set.
    """
    steps = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
    prctl(PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header)


def keep_capabilities(machine: str, *kept: int) -> None:
    """Give up every capability of this thread but those kept, if it has them.

    Raises:
        OSError: the kernel refused; ``errno`` says why.
    """
    held = _held_capabilities() & sum(1 << each for each in kept)
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    # Effective, permitted and inheritable, for capabilities 0 to 31 and from 32 on.
    call(_CAPSET[machine], header, struct.pack("6I", held, held, 0, 0, 0, 0))


def _held_capabilities() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (each for each in lines if each.startswith("CapPrm:"))
    return int(line.split()[1], 16) & 0xFFFFFFFF


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
