"""Memory for one version of the weights after another: what all have let go of is written over.

Empty pages take longer to come by than a model's bytes to copy; on a virtual machine whose host
takes back what is free, ten times as long (decision 0100). What the bytes are is told by those who
fill them: ``trainer/weight_bytes``, ``transport/fetching``, ``broadcast/receiver``.
"""

import contextlib
import mmap


class Buffers:
    """Lends memory that nobody looks at; not for several threads at once."""

    def __init__(self) -> None:
        self._buffers: list[mmap.mmap] = []

    def acquire(self, num_bytes: int) -> memoryview:
        """Return memory that nobody else has a view of, with whatever was written there before.

        It is not lent again for as long as anyone holds it, or a part of it. Memory of other sizes
        that nobody holds is given back.

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
    """Tell whether nobody has a view of it: Python resizes no memory that others look at."""
    try:
        buffer.resize(len(buffer))
    except BufferError:
        return False
    except SystemError:
        # Some systems resize no memory at all; that is said after this.
        return True
    return True
