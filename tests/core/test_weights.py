"""The table of measured constants, and the ways that a job leaves open."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.job.spec import WeightEncoding, WeightTransport
from hetrl_core.weights.changes import changed_share, mean_share
from hetrl_core.weights.constants import CHANGED, CONSTANTS, PACKED, Constant
from hetrl_core.weights.way import WeightPath, WeightWay, open_ways, stated_way


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda each: each.name)
def test_constant_names_its_source_and_is_positive(constant: Constant) -> None:
    assert constant.value > 0
    assert constant.source


@pytest.mark.parametrize(
    ("number", "rate", "share"),
    [(number, rate, share) for number, row in CHANGED.items() for rate, share in row.items()],
)
def test_changed_share_is_the_measured_one(number: str, rate: float, share: float) -> None:
    assert changed_share(rate, number=number) == pytest.approx(share)


@given(
    number=st.sampled_from(sorted(CHANGED)),
    rate=st.floats(0, 1),
    versions=st.integers(1, 10_000),
)
def test_changed_share_grows_with_the_rate_up_to_the_whole(
    number: str, rate: float, versions: int
) -> None:
    share = changed_share(rate, number=number)
    assert 0 <= share <= PACKED[number]
    assert changed_share(2 * rate, number=number) >= share
    mean = mean_share(rate, versions=versions, number=number)
    assert share - 1e-9 <= mean <= PACKED[number] + 1e-9


GRPC, NCCL, AUTO = WeightTransport.GRPC, WeightTransport.NCCL, WeightTransport.AUTO
W, P, B = WeightWay.WHOLE, WeightWay.PATCHES, WeightWay.BROADCAST
RW, RP = WeightWay.RELAYED_WHOLE, WeightWay.RELAYED_PATCHES


@pytest.mark.parametrize(
    ("transport", "encoding", "crosses", "ways"),
    [
        (GRPC, "Auto", False, {W, P}),
        (GRPC, "Auto", True, {W, P, RW, RP}),
        (GRPC, "Whole", True, {W, RW}),
        (GRPC, "Patches", False, {P}),
        (NCCL, "Auto", False, {B}),
        (NCCL, "Patches", False, {B}),
        (NCCL, "Patches", True, {P, RP}),
        (AUTO, "Auto", False, {W, P, B}),
        (AUTO, "Auto", True, {W, P, RW, RP}),
        (AUTO, "Patches", False, {P}),
    ],
)
def test_open_ways_are_those_that_a_job_allows(
    transport: WeightTransport, encoding: str, crosses: bool, ways: set[WeightWay]
) -> None:
    given = WeightEncoding(encoding)
    found = open_ways(transport=transport, encoding=given, crosses=crosses, shares_gpus=False)
    assert set(found) == ways
    on_shared = open_ways(transport=transport, encoding=given, crosses=crosses, shares_gpus=True)
    assert WeightWay.BROADCAST not in on_shared


@pytest.mark.parametrize(
    ("way", "transport", "crosses", "kept"),
    [
        (W, GRPC, False, True),
        (RP, GRPC, True, True),
        (B, GRPC, False, False),
        (B, NCCL, False, True),
        (W, NCCL, False, False),
        (B, AUTO, False, True),
        (B, AUTO, True, False),
    ],
)
def test_stated_way_holds_while_the_transport_allows_it(
    way: WeightWay, transport: WeightTransport, crosses: bool, kept: bool
) -> None:
    paths = (WeightPath(region="eu", way=way, readers=2),)
    found = stated_way(paths, "eu", transport=transport, crosses=crosses)
    assert found is (way if kept else None)
    assert stated_way(paths, "us", transport=transport, crosses=crosses) is None


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda each: each.name)
def test_transport_page_has_each_constant(constant: Constant) -> None:
    page = (Path(__file__).parents[2] / "docs" / "transport.md").read_text()
    row = (
        f"| {constant.name} | {constant.value:,.10g} {constant.unit} | {constant.origin} "
        f"| {constant.source} |"
    )
    assert row in page, row
