"""Numbers as blocks: a curve a few lines high, and a bar, for a terminal."""

from collections.abc import Sequence
from itertools import pairwise

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_LEFT_EIGHTHS = " ▏▎▍▌▋▊▉█"


def curve(values: Sequence[float], *, width: int, height: int, top: float) -> tuple[str, ...]:
    """Draw values from 0 to ``top`` as an area, the newest at the right, as lines of text.

    More values than columns are averaged, so that the whole run stays in view.
    """
    columns = _resampled(values, width)
    eighths = [round(8 * height * min(1.0, max(0.0, value / top))) for value in columns]
    return tuple(
        "".join(_EIGHTHS[min(8, max(0, each - 8 * row))] for each in eighths).ljust(width)
        for row in reversed(range(height))
    )


def bar(share: float, *, width: int) -> str:
    """Draw a share of 1 as a bar of that width."""
    eighths = round(8 * width * min(1.0, max(0.0, share)))
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_LEFT_EIGHTHS[rest] if rest else "")).ljust(width)


def _resampled(values: Sequence[float], width: int) -> list[float]:
    if len(values) <= width:
        return list(values)
    edges = [round(index * len(values) / width) for index in range(width + 1)]
    return [sum(values[low:high]) / (high - low) for low, high in pairwise(edges)]
