"""The seccomp filter of reward code, evaluated without a kernel for both architectures."""

import errno
import struct

import pytest

from hetrl_runtime.reward.confinement.seccomp_filter import ALLOW, KILL, REFUSE, UNKNOWN, program
from hetrl_runtime.reward.confinement.system_calls import filter_of

PID = 4321
X86_64, AARCH64 = "x86_64", "aarch64"
AUDIT = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}
DEPENDS = "depends on its arguments"


def listed(*lines: str) -> set[int]:
    """Return the numbers of "1 3-5"."""
    ranges = [each.partition("-") for line in lines for each in line.split()]
    return {
        number for first, _, last in ranges for number in range(int(first), int(last or first) + 1)
    }


# A number here allows untrusted code to make the call.
ALLOWED = {
    X86_64: listed(
        "0 1 3-8 10-15 17-21 23-25 32-39 60 63 78 79 89 96-100 102 104 107 108 110 127 128 130",
        "131 186 201 202 204 217-219 228-231 262 267 269-271 273 292 309 318 332 334 439",
    ),
    AARCH64: listed(
        "17 23 24 48 57 61-68 72 73 78-80 93 94 96 98 99 101-103 113-115 123 124 128 132-137",
        "139 153 160 163 165 168 169 172-179 214-216 226 278 291 293 439",
    ),
}
CONDITIONAL = {
    X86_64: listed("2 9 16 28 56 62 72 157 234 257 302"),
    AARCH64: listed("25 29 56 129 131 167 220 222 233 261"),
}
FALLS_BACK = {435, 437, *range(463, 601)}
"""The C library tries an older call where these do not exist."""


def verdict(
    machine: str, number: int, *arguments: int, architecture: int | None = None
) -> tuple[int, bool]:
    """Run the filter; return its verdict and whether it depends on an argument."""
    code = program(filter_of(machine, pid=PID))
    steps = [struct.unpack_from("HBBI", code, at) for at in range(0, len(code), 8)]
    passed = [each & 0xFFFFFFFFFFFFFFFF for each in (*arguments, *[0] * 6)][:6]
    data = struct.pack("<IIQ6Q", number, architecture or AUDIT[machine], 0, *passed)
    at, held, has_looked = 0, 0, False
    while True:
        operation, if_true, if_false, value = steps[at]
        at += 1
        match operation:
            case 0x20:
                (held,) = struct.unpack_from("<I", data, value)
                has_looked = has_looked or value >= 16
            case 0x15:
                at += if_true if held == value else if_false
            case 0x35:
                at += if_true if held >= value else if_false
            case 0x45:
                at += if_true if held & value else if_false
            case 0x06:
                return value, has_looked
            case _:
                raise AssertionError(f"no such operation: {operation:#x}")


def decision(machine: str, number: int) -> int | str:
    found, has_looked = verdict(machine, number)
    return DEPENDS if has_looked else found


@pytest.mark.parametrize("machine", [X86_64, AARCH64])
def test_filter_decides_each_number_as_listed(machine: str) -> None:
    found = {number: decision(machine, number) for number in range(601)}

    assert {number for number in found if found[number] == ALLOW} == ALLOWED[machine]
    assert {number for number in found if found[number] == DEPENDS} == CONDITIONAL[machine]
    assert {number for number in found if found[number] == UNKNOWN} == FALLS_BACK
    rest = {*found} - ALLOWED[machine] - CONDITIONAL[machine] - FALLS_BACK
    assert {found[number] for number in rest} == {REFUSE}


def test_verdicts_are_the_ones_of_the_kernel() -> None:
    assert (ALLOW, KILL) == (0x7FFF0000, 0x80000000)
    assert (REFUSE & 0xFFFF, UNKNOWN & 0xFFFF) == (errno.EPERM, errno.ENOSYS)
    assert {REFUSE >> 16, UNKNOWN >> 16} == {5}


@pytest.mark.parametrize("machine", [X86_64, AARCH64])
@pytest.mark.parametrize("architecture", [0x40000003, 0x40000028, *AUDIT.values()])
def test_filter_kills_calls_of_another_architecture(machine: str, architecture: int) -> None:
    wanted = ALLOW if architecture == AUDIT[machine] else KILL
    number = min(ALLOWED[machine])
    assert verdict(machine, number, architecture=architecture)[0] == wanted


@pytest.mark.parametrize("number", [0x40000000, 0x40000001, 0x40000039, 0xFFFFFFFF])
def test_filter_kills_numbers_of_x32(number: int) -> None:
    assert verdict(X86_64, number)[0] == KILL


def either(x86_64: int | None, aarch64: int | None) -> tuple[tuple[str, int | None], ...]:
    return ((X86_64, x86_64), (AARCH64, aarch64))


OPEN, OPENAT = either(2, None), either(257, 56)
MMAP, MADVISE, CLONE = either(9, 222), either(28, 233), either(56, 220)
FCNTL, IOCTL, PRCTL = either(72, 25), either(16, 29), either(157, 167)
PRLIMIT, KILLS, TGKILL = either(302, 261), either(62, 129), either(234, 131)
HIGH = 1 << 32
THREAD = 0x3D0F00
FOLDER = {X86_64: 0x10000, AARCH64: 0x4000}


@pytest.mark.parametrize(
    ("call", "arguments", "is_allowed"),
    [
        # Opening: for reading, with O_CLOEXEC, O_NONBLOCK, O_NOCTTY.
        (OPENAT, (-100, 1, 0), True),
        (OPENAT, (-100, 1, 0x80000), True),
        (OPENAT, (-100, 1, 0x80900), True),
        (OPENAT, (-100, 1, 0x1), False),  # O_WRONLY
        (OPENAT, (-100, 1, 0x2), False),  # O_RDWR
        (OPENAT, (-100, 1, 0x3), False),  # access for ioctl alone
        (OPENAT, (-100, 1, 0x40), False),  # O_CREAT
        (OPENAT, (-100, 1, 0x200), False),  # O_TRUNC
        (OPENAT, (-100, 1, 0x2000), False),  # O_ASYNC
        (OPENAT, (-100, 1, 0x40000), False),  # O_NOATIME
        (OPENAT, (-100, 1, 0x200000), False),  # O_PATH
        (OPENAT, (-100, 1, 0x410000), False),  # O_TMPFILE of x86_64
        (OPENAT, (-100, 1, 0x404000), False),  # O_TMPFILE of aarch64
        (OPEN, (1, 0x80000), True),
        (OPEN, (1, 0x1), False),
        (OPEN, (1, 0x41), False),
        # Memory.
        (MMAP, (0, 4096, 3, 0x22, -1, 0), True),
        (MMAP, (0, 4096, 5, 0x812, 3, 0), True),
        (MMAP, (0, 4096, 3, 0x20022, -1, 0), True),  # a thread's stack
        (MMAP, (0, 4096, 3, 0x2022, -1, 0), False),  # MAP_LOCKED
        (MMAP, (0, 4096, 3, 0x40022, -1, 0), False),  # MAP_HUGETLB
        (MADVISE, (0, 4096, 4), True),
        (MADVISE, (0, 4096, 14), True),
        (MADVISE, (0, 4096, 9), False),  # MADV_REMOVE
        (MADVISE, (0, 4096, 21), False),  # MADV_PAGEOUT
        (MADVISE, (0, 4096, 100), False),  # MADV_HWPOISON
        # Threads, and nothing else that clone makes.
        (CLONE, (THREAD,), True),
        (CLONE, (THREAD | 0x400000,), True),  # musl's
        (CLONE, (17,), False),  # fork
        (CLONE, (0x4111,), False),  # vfork
        (CLONE, (THREAD & ~0x10000,), False),
        (CLONE, (THREAD | 17,), False),
        (CLONE, (THREAD | 0x10000000,), False),  # CLONE_NEWUSER
        (CLONE, (THREAD | 0x2000,), False),  # CLONE_PTRACE
        (CLONE, (THREAD | 0x80000000,), False),  # CLONE_IO
        # Descriptors.
        *((FCNTL, (0, command, 0), True) for command in (0, 1, 2, 3, 1030)),
        # Locks, owner and signal, leases, notices, sizes of pipes, seals, hints.
        *((FCNTL, (0, command, 0), False) for command in range(5, 44)),
        *((FCNTL, (0, command, 0), False) for command in range(1024, 1045) if command != 1030),
        (FCNTL, (0, 4, 0x800), True),
        (FCNTL, (0, 4, 0x8C02), True),
        (FCNTL, (0, 4, 0x2000), False),  # O_ASYNC
        (FCNTL, (0, 4, 0x2800), False),
        (FCNTL, (0, 4, 0x40000), False),  # O_NOATIME
        *(
            (IOCTL, (0, command), True)
            for command in (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A)
        ),
        (IOCTL, (0, 0x5412), False),  # TIOCSTI
        (IOCTL, (0, 0x5402), False),  # TCSETS
        (IOCTL, (0, 0x540E), False),  # TIOCSCTTY
        (IOCTL, (0, 0x5410), False),  # TIOCSPGRP
        (IOCTL, (0, 0x541C), False),  # TIOCLINUX
        (IOCTL, (0, 0x5452), False),  # FIOASYNC
        (IOCTL, (0, 0x8901), False),  # FIOSETOWN
        (IOCTL, (0, 0x40086602), False),  # FS_IOC_SETFLAGS
        (IOCTL, (0, 0x40049409), False),  # FICLONE
        # Itself.
        *((PRCTL, (option,), True) for option in (15, 16, 0x53564D41)),
        *(
            (PRCTL, (option,), False)
            for option in (1, 4, 8, 22, 23, 24, 28, 29, 35, 36, 38, 47, 59, 62, 0x59616D61)
        ),
        (PRLIMIT, (0, 7, 0, 1), True),
        (PRLIMIT, (PID, 7, 0, 1), False),
        (PRLIMIT, (1, 7, 0, 1), False),
        (PRLIMIT, (0, 7, 1, 0), False),
        (PRLIMIT, (0, 7, HIGH, 0), False),  # a pointer whose lower half is 0
        (KILLS, (PID, 9), True),
        *((KILLS, (pid, 9), False) for pid in (0, -1, 1, -PID, PID + 1)),
        (TGKILL, (PID, PID + 5, 10), True),
        *((TGKILL, (pid, pid, 10), False) for pid in (0, -1, 1, PID + 1)),
    ],
)
def test_filter_checks_arguments(
    call: tuple[tuple[str, int | None], ...], arguments: tuple[int, ...], is_allowed: bool
) -> None:
    wanted = ALLOW if is_allowed else REFUSE
    for machine, number in call:
        if number is not None:
            assert verdict(machine, number, *arguments)[0] == wanted, machine


@pytest.mark.parametrize("machine", [X86_64, AARCH64])
def test_filter_lets_folders_be_opened(machine: str) -> None:
    number = dict(OPENAT)[machine]
    other = FOLDER[AARCH64 if machine == X86_64 else X86_64]
    assert number
    assert verdict(machine, number, -100, 1, 0x80000 | FOLDER[machine])[0] == ALLOW
    # The other's number means O_DIRECT here.
    assert verdict(machine, number, -100, 1, 0x80000 | other)[0] == REFUSE
