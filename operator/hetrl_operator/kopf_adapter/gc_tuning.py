"""How often the operator looks for garbage: rarely, and never among what it was built of.

Watches and answers bring some thousand small values each, which hardly ever refer to themselves.
With Python's own thresholds, a third of the processor time of a crowd's start went into looking
through them again and again.
"""

import gc

RARELY = (5_000, 20, 20)
"""Thresholds of the three generations, as ``gc.set_threshold`` takes them. Python's are 700, 10
and 10."""


def collect_rarely() -> None:
    """To be called once, when everything is imported."""
    gc.freeze()
    gc.set_threshold(*RARELY)
