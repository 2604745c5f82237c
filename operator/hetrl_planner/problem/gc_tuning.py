"""Rare garbage collections while a plan is searched or simulated.

A search remembers a million small values and drops them all at its end; a simulation makes a
trajectory for every event. They hardly ever form cycles, and scanning them repeatedly takes a
tenth of the time of either.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = (20_000, 50, 100)
"""Thresholds of the three generations, as ``gc.set_threshold`` takes them. Ours."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely inside the context, and as often as before afterwards."""
    before = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
