"""Division of a batch among replicas: whole sequences, for the earliest last end.

HetRL's data-level load balancing (arXiv 2512.12476), exact: with times ``fixed + n·slot`` the
best division is found by bisection over the end, not by rounding shares.
"""

from collections.abc import Sequence
from heapq import heapify, heapreplace

from hetrl_planner.cost.inference import Pace


def balanced(paces: Sequence[Pace], *, sequences: int) -> tuple[int, ...]:
    """Return each replica's whole number of sequences; they sum to ``sequences``.

    Replicas that are too slow to help get none. Equal paces get equal shares, within one.
    """
    given = _floors(paces, sequences)
    # Sequences left by rounding down go one by one to the replica that would end soonest with it.
    waiting = [(pace.seconds(n + 1), rank) for rank, (pace, n) in enumerate(zip(paces, given))]  # noqa: B905
    heapify(waiting)
    for _ in range(sequences - sum(given)):
        _, rank = waiting[0]
        given[rank] += 1
        heapreplace(waiting, (paces[rank].seconds(given[rank] + 1), rank))
    return tuple(given)


def _floors(paces: Sequence[Pace], sequences: int) -> list[int]:
    """Return shares that all end by one moment, together no more than there is."""
    helping = sorted(paces, key=lambda pace: pace.fixed_seconds)
    rate = weighted = 0.0
    end = float("inf")
    # The end at which those that help take all of it, as if sequences could be cut.
    for pace in helping:
        if pace.fixed_seconds >= end:
            break
        rate += 1 / pace.slot_seconds
        weighted += pace.fixed_seconds / pace.slot_seconds
        end = (sequences + weighted) / rate
    return [max(0, int((end - pace.fixed_seconds) / pace.slot_seconds - 1e-9)) for pace in paces]
