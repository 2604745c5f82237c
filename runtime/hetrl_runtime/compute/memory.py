"""Memory that a process keeps: blocks that tensors free, and objects loaded at the start.

glibc returns large blocks to the system at once, and the system hands out empty pages one by one:
on a virtual machine, a tenth of a small model's training (decision 0095).
"""

import atexit
import ctypes
import gc

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""As in glibc's ``malloc.h``."""

_LARGEST_THRESHOLD_BYTES = 32 << 20
"""glibc refuses more."""

_MOST_KEPT_BYTES = (1 << 31) - 1
"""At the end of the heap; what an ``int`` can say."""


def keep_freed() -> None:
    """Let this process keep what it has; for those that need as much again at every step.

    Where the C library is another, nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_THRESHOLD_BYTES)
        mallopt(_TRIM_THRESHOLD, _MOST_KEPT_BYTES)


def keep_loaded() -> None:
    """Leave all that is there by now, models and libraries, out of every search for garbage.

    Looking through the 440,000 objects of PyTorch and transformers takes 0.2 s on a CPU core of
    2022, between any two lines: GPUs idle and heartbeats wait meanwhile.
    """
    gc.collect()
    gc.freeze()
    # Libraries that count what is left of them at the end would find everything, and say so.
    atexit.register(gc.unfreeze)
