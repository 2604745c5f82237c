"""Reused memory for one version of the weights after another.

Getting empty pages takes longer than copying a model's bytes; on a virtual machine whose host
reclaims free memory, ten times as long (decision 0100). ``trainer/model/weight_bytes``,
``transport/weights/fetching`` and ``broadcast/receiver`` fill the buffers.
"""

import contextlib
import mmap


class Buffers:
    """A pool of memory that no view refers to; not thread-safe."""

    def __init__(self) -> None:
        self._buffers: list[mmap.mmap] = []

    def acquire(self, num_bytes: int) -> memoryview:
        """Return memory without other views, with its former contents.

        It is not returned again while a view of it, or of a part of it, exists. Unused memory of
        other sizes is freed.

        Raises:
            OSError: there is not so much memory.
        """
        held, found = [], None
        for each in self._buffers:
            if not _is_unused(each):
                held.append(each)
            elif len(each) == _size(num_bytes):
                found = each
        if found is None:
            found = _new(_size(num_bytes))
        self._buffers = [*held, found]
        return memoryview(found)[:num_bytes]


def _size(num_bytes: int) -> int:
    # Nothing cannot be mapped.
    return max(num_bytes, 1)


def _new(num_bytes: int) -> mmap.mmap:
    found = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # Into pages of 4 KiB copying takes up to five times as long; some kernels have no others.
        with contextlib.suppress(OSError):
            found.madvise(mmap.MADV_HUGEPAGE)
    return found


def _is_unused(buffer: mmap.mmap) -> bool:
    """Tell whether a buffer has no view: Python does not resize memory that has one."""
    try:
        buffer.resize(len(buffer))
    except BufferError:
        return False
    except SystemError:
        # Systems that cannot resize memory raise this, after the check for views.
        return True
    return True
