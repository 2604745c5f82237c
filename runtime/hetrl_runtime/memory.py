"""Memory that tensors give back, kept by the process for the next ones.

glibc returns large blocks to the system at once, and the system hands out empty pages one by one:
on a virtual machine, a tenth of a small model's training (decision 0095).
"""

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""As in glibc's ``malloc.h``."""

_LARGEST_THRESHOLD_BYTES = 32 << 20
"""glibc refuses more."""

_MOST_KEPT_BYTES = (1 << 31) - 1
"""At the end of the heap; what an ``int`` can say."""


def keep_freed() -> None:
    """Let this process keep what it has; for those that make the same tensors at every step.

    Where the C library is another, nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_THRESHOLD_BYTES)
        mallopt(_TRIM_THRESHOLD, _MOST_KEPT_BYTES)
