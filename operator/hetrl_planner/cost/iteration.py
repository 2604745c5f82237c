"""Step time and staleness from the times of the generation and training sides.

In a synchronous step the sides run one after the other. In an asynchronous one they run side by
side, and the slower one sets the pace.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Replicas that generate at one rate and stop equally long for each new version."""

    samples_per_second: float
    """Of all of them together, while they generate."""

    stop_seconds: float
    """For each new version."""


def generation_window_seconds(streams: Sequence[Stream], *, batch_size: int) -> float:
    """Return the time from one version to the next in which generation makes one batch.

    The ``T`` at which ``sum(r·max(0, T - s)) = B``: a stream that needs longer than ``T``
    for its weights contributes nothing. Infinite if nothing generates.
    """
    rate = stopped = 0.0
    window = float("inf")
    for stream in sorted(streams, key=lambda each: each.stop_seconds):
        if stream.stop_seconds >= window:
            break
        rate += stream.samples_per_second
        stopped += stream.samples_per_second * stream.stop_seconds
        if rate:
            window = (batch_size + stopped) / rate
    return window


def step_seconds(
    *, generation_seconds: float, training_seconds: float, is_synchronous: bool
) -> float:
    """Return the time of one policy version, weight synchronisation included."""
    if is_synchronous:
        return generation_seconds + training_seconds
    return max(generation_seconds, training_seconds)


def mean_staleness(
    *,
    step_seconds: float,
    generation_seconds: float,
    training_seconds: float,
    running: float,
    batch_size: int,
    max_staleness: int,
) -> float:
    """Return the staleness expected of an average trajectory, never above the bound.

    Where training is slower, admission is what holds generation back: each place that a
    new version opens is filled at once and consumed η versions later, so η. Where
    generation is slower, a trajectory lives ``running/B`` steps (Little's law), waits for
    its batch, and the versions published meanwhile lag by the time that training takes:
    ``running/B + T_train/T``. Ours; long tails are left to the simulator.
    """
    if training_seconds >= generation_seconds:
        return float(max_staleness)
    lag = running / batch_size + training_seconds / step_seconds
    return min(float(max_staleness), lag)
