"""The files that reward code may read: Python, its libraries, and the folder of the code."""

import sys
from collections.abc import Iterator
from pathlib import Path

_LIBRARIES = ("/usr", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store")

# Files of /etc one by one: to root, the folder also holds passwords and keys.
_SETTINGS = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ld.so.preload",
    "localtime",
    "timezone",
    "locale.alias",
    "mime.types",
    "nsswitch.conf",
    "passwd",
    "group",
    "os-release",
    "ssl/openssl.cnf",
)

_DEVICES = ("null", "zero", "random", "urandom")

# What libraries read to choose their code and the number of their threads. Not the whole of
# /proc/self, which shows the pod's mounts and connections.
_MACHINE = (
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/sys/vm/overcommit_memory",
    "/proc/self/maps",
    "/proc/self/stat",
    "/proc/self/statm",
    "/proc/self/status",
    "/proc/self/limits",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/kernel/mm/transparent_hugepage",
    "/sys/kernel/mm/hugepages",
)


def readable(file: Path, *, private: Path | None) -> list[Path]:
    """Return the files and folders that the code of ``file`` may read.

    Python's are those of this process. A folder counts with all below it, so ``/`` is left out
    wherever it occurs, and a folder above ``private`` is replaced by its other entries.
    """
    python = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *sys.path)
    fixed = [*_LIBRARIES, *_MACHINE]
    fixed += [f"/etc/{name}" for name in _SETTINGS] + [f"/dev/{name}" for name in _DEVICES]
    chosen = [Path(each) for each in [*python, *fixed] if each]
    absolute = file.absolute()
    # The file itself as well: a link may lead elsewhere, or it may lie in the root folder.
    chosen += [absolute, absolute.parent]
    chosen = [path for path in chosen if path.resolve() != Path("/")]
    if private is None:
        return chosen
    return [part for path in chosen for part in _siblings(path, private.resolve())]


def _siblings(path: Path, private: Path) -> Iterator[Path]:
    real = path.resolve()
    if real.is_relative_to(private):
        return
    if not private.is_relative_to(real):
        yield path
    elif not path.is_symlink():  # A link could lead back to a folder above it, without end.
        for entry in path.iterdir():
            yield from _siblings(entry, private)
