"""A folder with one owner: by a lock of the kernel, which ends with its process however it ends.

On a file system without locks (NFS without a lock daemon) a lease takes its place: a file that its
owner touches, and that others may take once it is old or its process is known to be gone.
"""

import errno
import json
import logging
import os
import socket
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Self

from filelock import BaseFileLock, FileLock, SoftFileLease, Timeout

log = logging.getLogger(__name__)

OWNER_FOLDER = ".owner"
"""Inside an owned folder; it stays when the owner goes."""

LEASE_SECONDS = 60.0
"""Age at which others may take a lease: longer than NFS clients remember a file's age."""

_LEASE_GRACE_SECONDS = 5.0
_WITHOUT_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}


class InUseError(OSError):
    """A folder belongs to another process; the message names both, and says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process that owns a folder."""

    process: int
    host: str
    since: str
    """An ISO 8601 time."""

    run: str = ""
    """What it owns the folder for; another process of it may wait for the folder."""

    def __str__(self) -> str:
        return f"process {self.process} of {self.host} since {self.since}"


class OwnedFolder:
    """A folder that this process owns until ``close``, or its own end."""

    def __init__(self, path: Path, lock: BaseFileLock) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def take(cls, path: Path, *, run: str = "", wait_seconds: float = 0.0) -> Self:
        """Make a folder where it is missing, and own it.

        Args:
            path: the folder.
            run: what it is owned for.
            wait_seconds: how long to wait for an owner of the same run, which is about to end.

        Raises:
            InUseError: another process owns it.
            OSError: it cannot be written.
        """
        place = path / OWNER_FOLDER
        place.mkdir(parents=True, exist_ok=True)
        try:
            lock = _taken(place, partial(_wait_seconds, path, run, longest=wait_seconds))
        except Timeout as error:
            raise InUseError(_in_use(path)) from error
        owner = Owner(
            process=os.getpid(),
            host=socket.gethostname(),
            since=datetime.now(UTC).isoformat(timespec="seconds"),
            run=run,
        )
        fresh = place / "owner.json.new"
        fresh.write_text(json.dumps(asdict(owner)) + "\n")
        fresh.replace(place / "owner.json")
        return cls(path, lock)

    def check(self) -> None:
        """Check that the folder is still ours: a lease can be lost while a process is stopped.

        Raises:
            InUseError: another process has taken it.
        """
        if isinstance(self._lock, SoftFileLease) and self._lock.compromise:
            raise InUseError(_in_use(self.path))

    def close(self) -> None:
        """Leave the folder to others."""
        self._lock.release()


def owner_of(path: Path) -> Owner | None:
    """Return who owned a folder last; None where that is not known."""
    try:
        return Owner(**json.loads((path / OWNER_FOLDER / "owner.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _in_use(path: Path) -> str:
    owner = owner_of(path) or "another process"
    return f"{path} is in use by {owner}: wait for its end, stop it, or choose another folder"


def _wait_seconds(path: Path, run: str, *, longest: float) -> float:
    """Return how long to wait for the present owner."""
    owner = owner_of(path)
    return longest if owner and owner.run == run else 0.0


def _taken(place: Path, longest_wait: Callable[[], float]) -> BaseFileLock:
    """Take the kernel's lock, or a lease where there are no locks.

    waits for: the present owner, or an old lease to expire; ``longest_wait`` limits it.
    """
    lock = FileLock(place / "lock", thread_local=False, fallback_to_soft=False)
    try:
        return _acquired(lock, longest_wait)
    except OSError as error:
        if isinstance(error, Timeout) or error.errno not in _WITHOUT_LOCKS:
            raise
    lease = SoftFileLease(place / "lease", lease_duration=LEASE_SECONDS, thread_local=False)
    return _acquired(lease, lambda: max(longest_wait(), _expiry_seconds(place / "lease")))


def _acquired(lock: BaseFileLock, longest_wait: Callable[[], float]) -> BaseFileLock:
    try:
        lock.acquire(timeout=0)
    except Timeout:
        seconds = longest_wait()
        if not seconds:
            raise
        log.warning("folder in use: lock=%s waiting_at_most_seconds=%g", lock.lock_file, seconds)
        lock.acquire(timeout=seconds)
    return lock


def _expiry_seconds(lease: Path) -> float:
    """Return how long an old lease has to be watched before it may be taken; 0 for a fresh one."""
    try:
        # By the file system's clock, which may differ from this machine's.
        with tempfile.TemporaryFile(dir=lease.parent) as now:
            age_seconds = os.fstat(now.fileno()).st_mtime - lease.stat().st_mtime
    except OSError:
        return 0.0
    return LEASE_SECONDS + _LEASE_GRACE_SECONDS if age_seconds > LEASE_SECONDS else 0.0
