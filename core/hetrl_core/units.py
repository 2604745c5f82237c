"""Names for numbers: binary sizes and decimal rates, so that no bare 1e9 means two things."""

MIB = 1024**2
GIB = 1024**3

GIGA = 1e9
TERA = 1e12

FLOAT32_MAX = float.fromhex("0x1.fffffep127")
"""The largest finite float32: what a reward may be, as the trainer computes with it."""


def gib(size_bytes: float) -> str:
    """Say a size the way people compare it with a GPU: ``gib(3 * GIB) == "3.0 GiB"``."""
    return f"{size_bytes / GIB:.1f} GiB"
