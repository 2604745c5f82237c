"""Which groups are traced."""

import pytest

from hetrl_runtime.tracing.groups import is_traced

GROUPS = range(20_000)


@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.5, 1.0])
def test_sampling_traces_as_many_groups_as_requested(ratio: float) -> None:
    traced = sum(is_traced("0b1c", group, ratio=ratio) for group in GROUPS)

    # Five standard deviations; at 0 and 1 there are none.
    assert abs(traced - ratio * len(GROUPS)) <= 5 * (len(GROUPS) * ratio * (1 - ratio)) ** 0.5


def test_larger_share_has_the_groups_of_a_smaller_one() -> None:
    few, many = (
        {group for group in GROUPS if is_traced("0b1c", group, ratio=ratio)}
        for ratio in (0.01, 0.1)
    )

    assert few < many


def test_sampling_depends_on_the_run() -> None:
    first, again, other = (
        [is_traced(uid, group, ratio=0.5) for group in GROUPS] for uid in ("a", "a", "b")
    )

    assert first == again != other
