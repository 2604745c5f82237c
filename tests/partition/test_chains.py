import numpy as np

from hetrl_planner.partition.search.chains import Chains, Improved, swap_chains
from hetrl_planner.partition.search.search import Proposals

FITS = ([0, 1, 0, 1], [1, 0, 1, 0])


def answered(proposals: Proposals[Improved]) -> Improved:
    """What proposals end with, where only these two partitions fit."""
    labels = next(proposals)
    try:
        while True:
            labels = proposals.send(1.0 if labels.tolist() in FITS else float("inf"))
    except StopIteration as end:
        found: Improved = end.value
        return found


def test_chain_that_begins_where_nothing_fits_finds_what_does() -> None:
    proposals = swap_chains(
        np.array([0, 0, 1, 1]), np.arange(4), np.random.default_rng(1), chains=Chains()
    )
    assert answered(proposals).cost == 1.0
