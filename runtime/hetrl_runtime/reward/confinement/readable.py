"""The files that reward code may read: Python, its libraries, and the folder of the code."""

import sys
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


def readable(file: Path) -> list[Path]:
    """Return the files and folders that the code of ``file`` may read.

    Python's are those of this process. A folder counts with all below it, so ``/`` is left out
    wherever it occurs.
    """
    python = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *sys.path)
    fixed = [*_LIBRARIES, *_MACHINE]
    fixed += [f"/etc/{name}" for name in _SETTINGS] + [f"/dev/{name}" for name in _DEVICES]
    chosen = [Path(each) for each in [*python, *fixed] if each]
    absolute = file.absolute()
    # The file itself as well: a link may lead elsewhere, or it may lie in the root folder.
    chosen += [absolute, absolute.parent]
    return [path for path in chosen if path.resolve() != Path("/")]
