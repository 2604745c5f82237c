"""A reward function that makes the attempt which the response names, for ``test_confinement``.

It returns the errno of what was refused, and 0 for an attempt that went through. None of them
changes anything if it does go through: it sets what is already so, or aims at nothing.
"""

import ctypes
import fcntl
import mmap
import os
import platform
import resource
import signal
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

LIBRARY = ctypes.CDLL(None, use_errno=True)
AT = ["x86_64", "aarch64"].index(platform.machine())
PARENT = os.getppid()
STDIN, STDOUT = 0, 1


def call(function: str, *arguments: int | bytes | None) -> int:
    """Call a function of the C library."""
    passed = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    ctypes.set_errno(0)
    found: int = getattr(LIBRARY, function)(*passed)
    if found == -1:
        raise OSError(ctypes.get_errno(), function)
    return found


def system(numbers: tuple[int, int], *arguments: int | bytes | None) -> int:
    """Make a system call, given by its numbers on x86_64 and aarch64."""
    return call("syscall", numbers[AT], *arguments)


def both(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call that has the same number on both architectures."""
    return system((number, number), *arguments)


def own() -> int:
    """Open this file, as any code may."""
    return os.open(__file__, os.O_RDONLY)


def of_parent(name: str) -> str:
    return f"/proc/{PARENT}/{name}"


def read(path: str) -> None:
    with Path(path).open("rb") as file:
        file.read(1)


def names(path: str) -> list[Path]:
    return list(Path(path).iterdir())


def target(path: str) -> Path:
    return Path(path).readlink()


def priority_of_parent() -> None:
    os.setpriority(os.PRIO_PROCESS, PARENT, 0)


def no_limit_of_processor_time() -> None:
    if resource.getrlimit(resource.RLIMIT_CPU)[1] != resource.RLIM_INFINITY:
        raise PermissionError(1, "limited")


def a_limit_left_open() -> None:
    limited = ["AS", "CPU", "NOFILE", "FSIZE", "CORE", "MSGQUEUE", "MEMLOCK", "SIGPENDING"]
    hard = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1] for name in limited}
    if (
        all(0 <= hard[name] <= 1 for name in limited[3:])
        and resource.RLIM_INFINITY not in hard.values()
    ):
        raise PermissionError(1, "all are limited")


def another_file_beside_the_folder() -> None:
    read(str(Path(__file__).parents[1] / "private.txt"))


def kind_of(number: int) -> int:
    """Return what a descriptor is open for, 0 if it is not open."""
    try:
        return stat.S_IFMT(os.fstat(number).st_mode)
    except OSError:
        return 0


INHERITED = {kind_of(number) for number in range(3, 64)} - {0, stat.S_IFIFO}
"""Kinds of descriptors that were open when this file was loaded, beside the runner's pipe."""


def inherited_file() -> None:
    if not INHERITED:
        raise PermissionError(1, "there is none")


def signal_value(number: int) -> None:
    """Queue a signal with a value for the parent; signal 0 only checks the permission."""
    system((129, 138), PARENT, number, bytes(128))


ATTEMPTS: dict[str, Callable[[], object]] = {
    # Signals to others, directly and by way of descriptors.
    "owner of stdin": lambda: fcntl.fcntl(STDIN, fcntl.F_SETOWN, PARENT),
    "owner of stdin, extended": lambda: fcntl.fcntl(STDIN, 15, bytes(8)),
    "signal of stdin": lambda: fcntl.fcntl(STDIN, 10, 0),
    "asynchronous stdin": lambda: fcntl.fcntl(STDIN, fcntl.F_SETFL, os.O_ASYNC),
    "asynchronous stdin by ioctl": lambda: fcntl.ioctl(STDIN, 0x5452, bytes(4)),
    "owner of stdin by ioctl": lambda: fcntl.ioctl(STDIN, 0x8901, bytes(4)),
    "kill parent": lambda: os.kill(PARENT, 0),
    "kill group": lambda: os.kill(0, 0),
    "kill all": lambda: os.kill(-1, 0),
    "tgkill parent": lambda: system((234, 131), PARENT, PARENT, 0),
    "tkill parent": lambda: system((200, 130), PARENT, 0),
    "queue signal": lambda: signal_value(0),
    "pidfd": lambda: both(434, PARENT, 0),
    "timer for a thread of another": lambda: system((222, 107), 0, None, bytes(8)),
    "letters to a terminal": lambda: fcntl.ioctl(STDIN, 0x5412, b"x"),
    "process_mrelease": lambda: both(448, -1, 0),
    # Files: modes, attributes, locks, leases, times, contents.
    "mode of own file": lambda: os.fchmod(own(), os.fstat(own()).st_mode & 0o7777),
    "owner of own file": lambda: os.fchown(own(), -1, -1),
    "attribute of own file": lambda: os.setxattr(own(), "user.hetrl", b"1"),
    "flags of own file": lambda: fcntl.ioctl(own(), 0x80086601, bytes(8)),
    "times of own file": lambda: os.utime(own(), ns=(os.stat(own()).st_atime_ns,) * 2),
    "lock": lambda: fcntl.flock(own(), fcntl.LOCK_SH | fcntl.LOCK_NB),
    "record lock": lambda: fcntl.lockf(own(), fcntl.LOCK_SH | fcntl.LOCK_NB),
    "lease": lambda: fcntl.fcntl(own(), 1024, fcntl.F_UNLCK),
    "notices of a folder": lambda: fcntl.fcntl(own(), 1026, 0),
    "inotify": lambda: call("inotify_init"),
    "fanotify": lambda: call("fanotify_init", 0, 0),
    "write": lambda: os.open("/dev/null", os.O_WRONLY),
    "unnamed file": lambda: os.open("/tmp", os.O_RDWR | 0o20000000),
    "path": lambda: os.open("/", os.O_PATH),
    "link": lambda: os.link(__file__, "/nowhere/at/all"),
    "umount": lambda: call("umount", b"/nowhere/at/all"),
    "move_mount": lambda: both(429, -1, b"", -1, b"", 0),
    "open_tree": lambda: both(428, -100, b"/", 0),
    "handle of a file": lambda: system((303, 264), -100, b"/", bytes(16), bytes(8), 0),
    "sync": lambda: os.fsync(own()),
    "drop cached pages": lambda: os.posix_fadvise(own(), 0, 0, os.POSIX_FADV_DONTNEED),
    # Memory and objects that outlive the process, or are taken from others.
    "shared memory": lambda: call("shmget", 0, 4096, 0o1600),
    "semaphores": lambda: call("semget", 0, 1, 0o1600),
    "messages": lambda: call("msgget", 0, 0o1600),
    "message queue": lambda: system((240, 180), b"hetrl", os.O_RDONLY | os.O_CREAT, 0o600, None),
    "memfd": lambda: os.memfd_create("x"),
    "secret memory": lambda: both(447, 0),
    "key": lambda: system((250, 219), 0, -3, 1),
    "lock memory": lambda: call("mlockall", 1),
    "lock one page": lambda: call("mlock", None, 4096),
    "locked mapping": lambda: mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | 0x2020),
    "huge mapping": lambda: mmap.mmap(-1, 1 << 21, mmap.MAP_PRIVATE | 0x40020),
    "page out": lambda: mmap.mmap(-1, 4096).madvise(21),
    "size of a pipe": lambda: fcntl.fcntl(STDIN, 1031, 4096),
    "pages of a pipe": lambda: os.splice(STDIN, STDOUT, 0),
    "asynchronous input": lambda: system((206, 0), 1, bytes(8)),
    "io_uring": lambda: both(425, 1, bytes(128)),
    # Processors, priorities, limits.
    "affinity of parent": lambda: os.sched_setaffinity(PARENT, os.sched_getaffinity(0)),
    "affinity": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
    "priority of parent": priority_of_parent,
    "nice": lambda: os.nice(0),
    "input priority of parent": lambda: system((251, 30), 1, PARENT, 0),
    "scheduler of parent": lambda: os.sched_setscheduler(PARENT, 0, os.sched_param(0)),
    "limits of parent": lambda: resource.prlimit(PARENT, resource.RLIMIT_CORE),
    "own limits": lambda: call("setrlimit", resource.RLIMIT_CORE, bytes(16)),
    "no limit of processor time": no_limit_of_processor_time,
    "a limit left open": a_limit_left_open,
    "membarrier": lambda: system((324, 283), 1, 0, 0),
    # Undoing what holds this process.
    "outlive the parent": lambda: call("prctl", 1, 0, 0, 0, 0),
    "traced by any": lambda: call("prctl", 0x59616D61, -1, 0, 0, 0),
    "another filter": lambda: system((317, 277), 0, 0, None),
    "another domain": lambda: both(444, None, 0, 1),
    "own capabilities": lambda: system((125, 90), bytes(8), None),
    "user": lambda: os.setuid(os.getuid()),
    "session": os.setsid,
    "personality": lambda: call("personality", 0xFFFFFFFF),
    # Other processes, namespaces, networks.
    "fork": lambda: os.fork() or os._exit(0),
    "spawn": lambda: os.posix_spawn("/nowhere/at/all", ["x"], {}),
    "thread of another user": lambda: system((56, 220), 0x103D0F00, None),
    "namespace": lambda: call("unshare", 0),
    "trace": lambda: system((101, 117), 0x4206, PARENT, None, None),
    "memory by process_vm": lambda: system((310, 270), PARENT, None, 0, None, 0, 0),
    "compare with parent": lambda: system((312, 272), PARENT, PARENT, 1, 0, 0),
    "locks of parent": lambda: system((274, 100), PARENT, bytes(8), bytes(8)),
    "unix socket": lambda: socket.socket(socket.AF_UNIX),
    "pair of sockets": socket.socketpair,
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "kernel log": lambda: system((103, 116), 10, None, 0),
    "counters": lambda: system((298, 241), bytes(128), PARENT, -1, -1, 0),
    "program of the kernel": lambda: system((321, 280), 0, bytes(64), 64),
    "page faults": lambda: system((323, 282), 0),
    "clock": lambda: time.clock_settime(time.CLOCK_REALTIME, -1),
    "inherited file": inherited_file,
    "pipe": os.pipe,
}

PRIVATE_OF_PARENT: dict[str, Callable[[], object]] = {
    "environment": lambda: read(of_parent("environ")),
    "memory": lambda: read(of_parent("mem")),
    "maps": lambda: read(of_parent("maps")),
    "auxiliary vector": lambda: read(of_parent("auxv")),
    "program": lambda: target(of_parent("exe")),
    "folder": lambda: target(of_parent("cwd")),
    "root": lambda: target(of_parent("root")),
    "file below its root": lambda: read(of_parent("root/etc/hostname")),
    "descriptor": lambda: read(of_parent("fd/0")),
}
"""What no process may read of the one that asks, with Landlock and without."""

FILES: dict[str, Callable[[], object]] = {
    "file beside the folder": another_file_beside_the_folder,
    "shadow": lambda: read("/etc/shadow"),
    "processes": lambda: names("/proc"),
    "root folder": lambda: names("/"),
    "temporary folder": lambda: names("/tmp"),
    "home": lambda: names(str(Path.home())),
    "shared memory": lambda: names("/dev/shm"),
    "descriptors of parent": lambda: names(of_parent("fd")),
    "command line of parent": lambda: read(of_parent("cmdline")),
    "connections": lambda: read("/proc/self/net/tcp"),
    "mounts": lambda: read("/proc/self/mountinfo"),
    "own root": lambda: names("/proc/self/root/"),
}
"""What Landlock keeps from the code."""

WORKS: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "own file": lambda: read(__file__),
    "own folder": lambda: names(str(Path(__file__).parent)),
    "own limits": lambda: resource.getrlimit(resource.RLIMIT_AS),
    "own signal": lambda: os.kill(os.getpid(), 0),
    "raise": lambda: signal.raise_signal(signal.SIGURG),
    "alarm": lambda: signal.alarm(0),
    "zones": time.tzset,
    "random": lambda: os.urandom(8),
    "blocking": lambda: os.set_blocking(STDIN, True),
    "name": lambda: call("prctl", 15, b"reward", 0, 0, 0),
    "memory": lambda: mmap.mmap(-1, 4096).madvise(mmap.MADV_DONTNEED),
    "map a file": lambda: mmap.mmap(own(), 0, prot=mmap.PROT_READ),
    "status": lambda: read("/proc/self/status"),
}


def score(response: str, answer: str) -> float:
    """Try; ``response`` is the group, ``answer`` the attempt's name in it."""
    try:
        globals()[response][answer]()
    except OSError as error:
        return float(error.errno or -1)
    return 0.0
