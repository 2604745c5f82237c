"""Splits in the order of a full sort, with no more of them rated than requested."""

from collections.abc import Mapping
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from hetrl_planner.layout.fit.ranked import RankedSplits, Split

SPLITS = [(tensor, stages) for tensor in (1, 2, 4, 8) for stages in (1, 2, 3, 4)]

rates = st.integers(0, 6).map(float)
filled = st.fixed_dictionaries({split: st.tuples(rates, rates) for split in SPLITS})


def sorted_by(rates: Mapping[Split, float]) -> list[Split]:
    fitting = [split for split in rates if rates[split]]
    return sorted(
        fitting,
        key=lambda split: (rates[split] / prod(split), -prod(split), split),
        reverse=True,
    )


@given(filled)
def test_splits_come_as_a_full_sort_has_them(rates: dict[Split, tuple[float, float]]) -> None:
    empty = {split: max(both) for split, both in rates.items()}
    beside = {split: min(both) for split, both in rates.items()}

    ranked = RankedSplits([(empty[split], split) for split in SPLITS], beside.__getitem__)

    assert list(ranked) == sorted_by(beside)
    assert list(ranked) == sorted_by(beside)
    assert ranked.first == next(iter(sorted_by(beside)), None)


@given(filled)
def test_rates_on_empty_gpus_are_taken_as_they_are(
    rates: dict[Split, tuple[float, float]],
) -> None:
    empty = {split: first for split, (first, _) in rates.items()}

    assert list(RankedSplits([(rate, split) for split, rate in empty.items()])) == sorted_by(empty)


def test_impossible_successor_is_not_rated() -> None:
    rated = []

    def rate(split: Split) -> float:
        rated.append(split)
        return 5.0

    ranked = RankedSplits([(6.0, (1, 1)), (5.5, (2, 1)), (4.0, (4, 1))], rate)

    assert ranked.first == (1, 1)
    assert rated == [(1, 1)]
