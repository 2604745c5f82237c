"""A node's own part of this machine's control groups, under which its kubelet puts the pods."""

from __future__ import annotations

import time
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
EMPTY_SECONDS = 10.0
SHARES = {"cpu.shares": "8192", "cpu.weight": "800"}
"""Eight times the default, in either version of control groups: else a whole node's pods
together weigh as much as one process of this machine, and crawl beside a busy test."""


def create_cgroup(name: str) -> str:
    """Create the group in every hierarchy and return its path as the kubelet wants it."""
    if _is_unified():
        for controller in (CGROUPS / "cgroup.controllers").read_text().split():
            (CGROUPS / "cgroup.subtree_control").write_text(f"+{controller}")
    for parent in _hierarchies():
        (parent / name).mkdir(exist_ok=True)
        if parent.name == "cpuset":
            # A cpuset starts empty, and no process may enter it then.
            for setting in ("cpuset.cpus", "cpuset.mems"):
                (parent / name / setting).write_text((parent / setting).read_text())
        for setting, share in SHARES.items():
            if (parent / name / setting).exists():
                (parent / name / setting).write_text(share)
    return f"/{name}"


def remove_cgroup(name: str) -> None:
    """Remove the group and all below it, once the kernel has let go of killed processes."""
    deadline = time.monotonic() + EMPTY_SECONDS
    for group in (parent / name for parent in _hierarchies()):
        while group.exists() and not _try_to_remove(group) and time.monotonic() < deadline:
            time.sleep(0.05)


def _try_to_remove(group: Path) -> bool:
    below = sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True)
    try:
        for folder in [*below, group]:
            folder.rmdir()
    except OSError:
        return False
    return True


def _is_unified() -> bool:
    return (CGROUPS / "cgroup.controllers").exists()


def _hierarchies() -> list[Path]:
    if _is_unified():
        return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]
