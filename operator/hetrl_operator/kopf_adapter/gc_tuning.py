"""Settings of Python's garbage collector: rare collections, and none of imported modules.

Watches and responses create thousands of small values, which hardly ever form cycles. With Python's
default thresholds, scanning them took a third of the CPU time while many jobs started.
"""

import gc

RARELY = (5_000, 20, 20)
"""Thresholds of the three generations, as ``gc.set_threshold`` takes them. Python's are 700, 10
and 10."""


def collect_rarely() -> None:
    """Set the thresholds; call it once, after all imports."""
    gc.freeze()
    gc.set_threshold(*RARELY)
