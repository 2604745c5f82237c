"""Landlock: the kernel's limit on which files a process reaches, set by the process itself.

It needs no privilege. It holds for root as well, and hides the ``/proc`` entries of other
processes. A kernel without it (before 5.13, or built so) answers ``version`` with 0.
"""

import os
import platform
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

from hetrl_runtime.reward.confinement import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION, _RULE_PATH_BENEATH = 1, 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""By version: how many rights on files it knows, from bit 0 on."""

_NETWORK_FROM, _SCOPES_FROM = 4, 6
_ALL_NETWORK, _ALL_SCOPES = 0b11, 0b11
"""TCP's bind and connect; abstract Unix sockets and signals of processes outside."""


def version() -> int:
    """Return the version that this kernel offers, 0 where it offers none."""
    if platform.system() != "Linux":
        return 0
    try:
        return kernel.call(_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def allow_reading(paths: Iterable[Path]) -> None:
    """Refuse this thread all files but those: folders with everything below them, read only.

    Paths that do not exist are left out. ``PR_SET_NO_NEW_PRIVS`` must be set.

    Raises:
        OSError: the kernel refused; ``errno`` says why.
    """
    ruleset = kernel.call(_CREATE_RULESET, *_handled(version()), 0)
    try:
        for path in paths:
            _allow(ruleset, path)
        kernel.call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _handled(offered: int) -> tuple[bytes, int]:
    """Return the rights that are refused unless a rule allows them, and their size in bytes."""
    count = max(count for since, count in _FILE_RIGHTS.items() if since <= offered)
    fields = [(1 << count) - 1]
    if offered >= _NETWORK_FROM:
        fields.append(_ALL_NETWORK)
    if offered >= _SCOPES_FROM:
        fields.append(_ALL_SCOPES)
    return struct.pack(f"{len(fields)}Q", *fields), 8 * len(fields)


def _allow(ruleset: int, path: Path) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(opened).st_mode)
        rights = _READ_FILE | (_READ_DIR if is_folder else 0)
        kernel.call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, opened), 0)
    finally:
        os.close(opened)
