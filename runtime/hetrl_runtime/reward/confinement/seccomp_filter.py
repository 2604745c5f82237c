"""A seccomp filter as a value, and its translation to classic BPF.

Which calls a filter allows is ``system_calls``' to say; ``kernel`` installs it.
"""

import errno
import struct
from collections.abc import Iterable
from dataclasses import dataclass

ALLOW, KILL, REFUSE, UNKNOWN = (
    0x7FFF0000,
    0x80000000,
    0x00050000 | errno.EPERM,
    0x00050000 | errno.ENOSYS,
)
"""Verdicts: run the call; end the process; fail with EPERM; fail with ENOSYS."""

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_X32_NUMBERS = 0x40000000
"""x86_64 gives the same calls a second set of numbers from here on."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """A 32-bit argument that must equal one of some values."""

    argument: int
    values: tuple[int, ...]
    is_high_half: bool = False
    """Compares bits 32 to 63 instead; a pointer is null if both halves are 0."""

    def steps(self, to_miss: int) -> list[bytes]:
        """Return the test; where it fails, it jumps over ``to_miss`` further steps."""
        last = len(self.values) - 1
        return [
            _load_argument(self.argument, is_high_half=self.is_high_half),
            *(_step(_JUMP_EQUAL, value, last - at) for at, value in enumerate(self.values[:-1])),
            _step(_JUMP_EQUAL, self.values[-1], 0, to_miss),
        ]


@dataclass(frozen=True, slots=True)
class Within:
    """A 32-bit argument that may have these bits set, and no others."""

    argument: int
    bits: int

    def steps(self, to_miss: int) -> list[bytes]:
        """Return the test; where it fails, it jumps over ``to_miss`` further steps."""
        return [
            _load_argument(self.argument),
            _step(_JUMP_SET, ~self.bits & 0xFFFFFFFF, to_miss, 0),
        ]


@dataclass(frozen=True, slots=True)
class Has:
    """A 32-bit argument in which one bit must be set."""

    argument: int
    bit: int

    def steps(self, to_miss: int) -> list[bytes]:
        """Return the test; where it fails, it jumps over ``to_miss`` further steps."""
        return [_load_argument(self.argument), _step(_JUMP_SET, self.bit, 0, to_miss)]


Condition = OneOf | Within | Has


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The calls that one architecture allows; every other call is refused."""

    audit_architecture: int
    allowed: tuple[int, ...]
    """Numbers of calls that are allowed whatever their arguments."""

    conditional: tuple[tuple[int, tuple[Condition, ...]], ...]
    """Numbers with the conditions that must all hold. A number may occur more than once."""

    unknown: tuple[int, ...]
    """Calls that fail with ENOSYS, so that the C library falls back on an older one."""

    unknown_from: int
    """Every number from here on fails with ENOSYS too: it is newer than this table."""


def program(chosen: Filter) -> bytes:
    """Return the filter as instructions of classic BPF, eight bytes each."""
    steps = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_JUMP_EQUAL, chosen.audit_architecture, 1, 0),
        _step(_RETURN, KILL),
        _step(_LOAD, _NUMBER_AT),
        _step(_JUMP_AT_LEAST, _X32_NUMBERS, 0, 1),
        _step(_RETURN, KILL),
        _step(_JUMP_AT_LEAST, chosen.unknown_from, 0, 1),
        _step(_RETURN, UNKNOWN),
        *_verdicts(chosen.allowed, ALLOW),
        *_verdicts(chosen.unknown, UNKNOWN),
    ]
    for number, conditions in chosen.conditional:
        steps += _rule(number, conditions)
    return b"".join([*steps, _step(_RETURN, REFUSE)])


def _verdicts(numbers: Iterable[int], verdict: int) -> Iterable[bytes]:
    for number in numbers:
        yield _step(_JUMP_EQUAL, number, 0, 1)
        yield _step(_RETURN, verdict)


def _rule(number: int, conditions: tuple[Condition, ...]) -> list[bytes]:
    """Return the steps of one rule; whatever does not match reaches the step behind it."""
    steps = [_step(_RETURN, ALLOW)]
    for condition in reversed(conditions):
        steps = condition.steps(len(steps)) + steps
    # Conditions of the rule before may have loaded an argument over the number.
    return [_step(_LOAD, _NUMBER_AT), _step(_JUMP_EQUAL, number, 0, len(steps)), *steps]


def _load_argument(argument: int, *, is_high_half: bool = False) -> bytes:
    return _step(_LOAD, _ARGUMENTS_AT + 8 * argument + 4 * is_high_half)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
