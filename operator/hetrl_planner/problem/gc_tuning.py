"""How often Python looks for garbage while a plan is made or played: rarely.

A search remembers a million small values and drops them all at its end; a simulation makes a
trajectory for every event. They hardly ever refer to themselves, and looking through them again
and again takes a tenth of the time of either.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = (20_000, 50, 100)
"""Thresholds of the three generations, as ``gc.set_threshold`` takes them. Ours."""


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Look for garbage rarely in here, and as often as before afterwards."""
    before = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
