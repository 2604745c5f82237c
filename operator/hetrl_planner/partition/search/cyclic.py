"""Cyclic partitioning: DT-FM's local search, which evaluates no cost.

One device after another moves from part to part until the cycle closes, so that sizes are
kept; the gain of a move is read from the links alone. After the authors' published scheduler
(Yuan et al., NeurIPS 2022) and as they define it: a device leaves its part for one that it is
*far* from, which puts slow links inside the parts and leaves fast ones to the pipeline.
"""

from dataclasses import dataclass, field

import numpy as np

from hetrl_planner.partition.graph import Labels, Matrix


@dataclass(frozen=True, slots=True)
class _Move:
    device: int
    source: int
    target: int


@dataclass(slots=True)
class _Locks:
    devices: np.ndarray
    parts: set[int] = field(default_factory=set)


def cyclic_partitioning(part_of: Labels, transfer_seconds: Matrix, *, num_parts: int) -> Labels:
    """Return the partition after at most ``num_parts`` cycles of moves.

    Args:
        part_of: parts of equal sizes.
        transfer_seconds: of one activation between each two devices.
        num_parts: how many parts there are.
    """
    locks = _Locks(np.zeros(len(part_of), dtype=bool))
    for _ in range(num_parts):
        part_of = _cycle(part_of, transfer_seconds, num_parts, locks)
        if len(locks.parts) == num_parts:
            break
    return part_of


def _cycle(part_of: Labels, seconds: Matrix, num_parts: int, locks: _Locks) -> Labels:
    """Move along one cycle, and keep the prefix that gains most when it is closed."""
    now = part_of.copy()
    leavers, gains = _gains(now, seconds, num_parts, locks.devices)
    origin = part = int(gains.max(axis=1).argmax())
    moves: list[_Move] = []
    gained: list[float] = []
    closing: list[float] = []
    while len(moves) < len(now):
        # A part with no device left to move returns the last one that it received.
        home = leavers[part] < 0
        device = moves[-1].device if home and moves else int(leavers[part])
        if device < 0:
            break
        target = origin if home else int(gains[part].argmax())
        moves.append(_Move(device, part, target))
        gained.append(float(gains[part].max()))
        closing.append(float(gains[part, origin]))
        now[device] = part = target
        locks.devices[device] = True
        locks.parts.add(target)
        if part == origin:
            break
        leavers, gains = _gains(now, seconds, num_parts, locks.devices)
    return _best_prefix(part_of, origin, moves, gained, closing)


def _best_prefix(
    start: Labels, origin: int, moves: list[_Move], gained: list[float], closing: list[float]
) -> Labels:
    sums = [sum(gained[:length]) + closing[length] for length in range(1, len(moves))]
    if not sums or max(sums) <= 0:
        return start
    last = int(np.argmax(sums)) + 1
    kept = start.copy()
    for move in moves[:last]:
        kept[move.device] = move.target
    kept[moves[last].device] = origin
    return kept


def _gains(
    part_of: Labels, seconds: Matrix, num_parts: int, locked: np.ndarray
) -> tuple[Labels, Matrix]:
    """Return the device that would leave each part (-1: none), and its gain in each other.

    The one that leaves has the fastest link inside its part; its gain is its mean time to
    the other part's members less the time of that fastest link.
    """
    member = np.eye(num_parts)[part_of]
    means = (seconds @ member) / np.maximum(member.sum(axis=0), 1)
    inside = np.where(part_of[:, None] == part_of, seconds, np.inf)
    np.fill_diagonal(inside, np.inf)
    nearest = inside.min(axis=1)
    leavers = np.full(num_parts, -1, dtype=np.intp)
    gains = np.full((num_parts, num_parts), -np.inf)
    for part in range(num_parts):
        candidates = np.flatnonzero((part_of == part) & ~locked & np.isfinite(nearest))
        if len(candidates):
            leavers[part] = leaver = candidates[nearest[candidates].argmin()]
            gains[part] = means[leaver] - nearest[leaver]
            gains[part, part] = -np.inf
    return leavers, gains
