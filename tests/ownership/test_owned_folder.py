"""Folders with one owner: by the kernel's lock, and by a lease where there are no locks."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hetrl_ownership import owned_folder
from hetrl_ownership.owned_folder import InUseError, OwnedFolder, owner_of

HOLDER = """
import sys, time
from pathlib import Path
from hetrl_ownership.owned_folder import OwnedFolder
held = OwnedFolder.take(Path(sys.argv[1]), run=sys.argv[2])
print("holds", flush=True)
time.sleep(60)
"""

WITHOUT_LOCKS = """
import errno, fcntl
def flock(*_):
    raise OSError(errno.ENOLCK, "No locks available")
fcntl.flock = flock
"""


@pytest.fixture
def holder(tmp_path):
    """Return what starts another process that owns the folder; it ends with the test."""
    started = []

    def start(run: str = "first", *, locks: bool = True) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", ("" if locks else WITHOUT_LOCKS) + HOLDER, tmp_path, run],
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "holds\n"
        return process

    yield start
    for each in started:
        each.kill()
        each.wait()
        each.stdout.close()


@pytest.fixture
def without_locks(monkeypatch):
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.parametrize("locks", [True, False], ids=["lock", "lease"])
def test_owner_in_another_process_is_named(tmp_path, holder, locks, request):
    if not locks:
        request.getfixturevalue("without_locks")
    process = holder(locks=locks)

    with pytest.raises(
        InUseError, match=rf"^{tmp_path} is in use by process {process.pid} of \S+ since 20\S+: "
    ):
        OwnedFolder.take(tmp_path)


@pytest.mark.parametrize("locks", [True, False], ids=["lock", "lease"])
def test_killed_owner_leaves_the_folder_free(tmp_path, holder, locks, request):
    if not locks:
        request.getfixturevalue("without_locks")
    process = holder(locks=locks)
    process.send_signal(signal.SIGKILL)
    process.wait()

    OwnedFolder.take(tmp_path).close()

    assert owner_of(tmp_path).process == os.getpid()


def test_closed_folder_is_taken_by_the_next(tmp_path):
    OwnedFolder.take(tmp_path / "new").close()
    OwnedFolder.take(tmp_path / "new").close()


def test_owner_of_the_same_run_is_waited_for(tmp_path):
    first = OwnedFolder.take(tmp_path, run="a")
    leaving = threading.Timer(0.2, first.close)
    leaving.start()

    OwnedFolder.take(tmp_path, run="a", wait_seconds=30).close()

    leaving.join()


def test_owner_of_another_run_is_not_waited_for(tmp_path):
    first = OwnedFolder.take(tmp_path, run="a")
    began_at = time.monotonic()

    with pytest.raises(InUseError):
        OwnedFolder.take(tmp_path, run="b", wait_seconds=30)

    assert time.monotonic() - began_at < 5
    first.close()


def test_wait_for_an_owner_has_a_deadline(tmp_path):
    first = OwnedFolder.take(tmp_path, run="a")

    with pytest.raises(InUseError):
        OwnedFolder.take(tmp_path, run="a", wait_seconds=0.1)

    first.close()


@pytest.mark.usefixtures("without_locks")
def test_old_lease_of_another_host_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(owned_folder, "LEASE_SECONDS", 0.1)
    first = OwnedFolder.take(tmp_path, run="a")
    lease = tmp_path / ".owner" / "lease"
    first._lock._stop_heartbeat()  # as a host does that lost its power
    lease.write_text(lease.read_text().replace(os.uname().nodename, "elsewhere"))
    os.utime(lease, (0, 0))

    second = OwnedFolder.take(tmp_path, run="b")

    second.check()
    second.close()


@pytest.mark.usefixtures("without_locks")
def test_lost_lease_is_noticed_by_its_owner(tmp_path, monkeypatch):
    monkeypatch.setattr(owned_folder, "LEASE_SECONDS", 0.15)
    first = OwnedFolder.take(tmp_path, run="a")
    first.check()
    (tmp_path / ".owner" / "lease").unlink()
    deadline = time.monotonic() + 30
    while first._lock.compromise is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)

    with pytest.raises(InUseError, match="is in use by"):
        first.check()


def test_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(OSError, match="file"):
        OwnedFolder.take(Path(tmp_path / "file" / "here"))
