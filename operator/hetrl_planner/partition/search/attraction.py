"""Three reasons for two devices to share a part, as weights from 0 to 1 for cuts.

Costs decide which parts are good; these weights direct the cuts. They are derived from the time of
a message and not from bandwidth alone, so that latency counts.
"""

from dataclasses import dataclass

import numpy as np

from hetrl_planner.partition.graph import DeviceGraph, Matrix


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attractions:
    """Each of shape (devices, devices), symmetric."""

    fast: Matrix
    """The inverse of time: parts whose members talk to each other much."""

    apart: Matrix
    """The complement of ``fast``: parts that leave fast links to the traffic between them.
    FlashFlex takes the reciprocal of bandwidth, which rather puts the slowest links inside."""

    alike: Matrix
    """Equally well connected on average: where few devices have fast links, those together
    can make one fast stretch of a pipeline, and spread out none."""


def attractions(graph: DeviceGraph, *, message_bytes: float) -> Attractions:
    """Return the three for messages of one size, each relative to its largest."""
    seconds = graph.transfer_seconds(message_bytes)
    between = seconds[~np.eye(len(graph), dtype=bool)]
    fast = between.min(initial=np.inf) / np.where(np.eye(len(graph), dtype=bool), np.inf, seconds)
    strength = fast.sum(axis=1)
    differences = np.abs(strength[:, None] - strength)
    return Attractions(
        fast=fast, apart=1 - fast, alike=1.0 - differences / (differences.max() or 1.0)
    )
