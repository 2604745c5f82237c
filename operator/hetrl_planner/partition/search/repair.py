"""Repair of the sizes of a partition's parts, with as few moves as possible."""

import numpy as np

from hetrl_planner.partition.graph import Labels, Matrix
from hetrl_planner.partition.shape import Shape


def to_sizes(part_of: Labels, shape: Shape, *, attraction: Matrix | None = None) -> Labels:
    """Move devices from parts that have too many to parts that have too few.

    Args:
        part_of: any labels from 0 to the number of parts.
        shape: the sizes to reach.
        attraction: how much each two devices would share a part, shape (devices, devices);
            the device that gains most by its move goes first. Unset: by their numbers.
    """
    repaired = part_of.copy()
    surplus = np.bincount(repaired, minlength=shape.num_parts) - np.array(shape.part_sizes)
    while surplus.any():
        movable = np.flatnonzero(surplus[repaired] > 0)
        needy = np.flatnonzero(surplus < 0)
        gains = _gains(repaired, movable, needy, attraction)
        row, column = np.unravel_index(gains.argmax(), gains.shape)
        device, part = movable[row], needy[column]
        surplus[repaired[device]] -= 1
        surplus[part] += 1
        repaired[device] = part
    return repaired


def _gains(part_of: Labels, movable: Labels, needy: Labels, attraction: Matrix | None) -> Matrix:
    if attraction is None:
        return np.zeros((len(movable), len(needy)))
    to_part = attraction[movable] @ np.eye(part_of.max() + needy.max() + 1)[part_of]
    own = to_part[np.arange(len(movable)), part_of[movable]]
    return np.asarray(to_part[:, needy] - own[:, None], dtype=np.float64)
