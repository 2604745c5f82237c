"""Gathering weights where training and generation take turns on the same GPUs."""

import pytest

from hetrl_planner.cost.network import Channel
from hetrl_planner.cost.resharding import ServedStage, Source, reshard_seconds

INSIDE = Channel(bytes_per_second=100e9, latency_seconds=0)
NETWORK = Channel(bytes_per_second=10e9, latency_seconds=0)
LINK = Channel(bytes_per_second=1e9, latency_seconds=0.1)
ALL = range(8)


def seconds(*, here: range, in_region: range, num_gpus: int = 2, layers: range = ALL) -> float:
    """A stage whose missing layers are in its region or else, all of them, behind a link."""
    stage = ServedStage(
        layers=layers,
        num_gpus=num_gpus,
        inside=Source(set(here), INSIDE),
        outside=[Source(set(in_region), NETWORK), Source(set(ALL), LINK)],
    )
    return reshard_seconds([stage], bytes_per_layer=1e9)


@pytest.mark.parametrize(
    ("here", "in_region", "expected"),
    [
        pytest.param(ALL, ALL, 8 / 2 / 100, id="all on the machine: a part for each GPU"),
        pytest.param(range(0), ALL, 8 / 10, id="none on the machine"),
        pytest.param(range(4), ALL, 4 / 2 / 100 + 4 / 10, id="half of them"),
        pytest.param(range(4), range(6), 4 / 2 / 100 + 2 / 10 + 2 + 0.1, id="two behind the link"),
    ],
)
def test_layers_come_from_where_they_are_quickest_to_have(
    here: range, in_region: range, expected: float
) -> None:
    assert seconds(here=here, in_region=in_region) == pytest.approx(expected)


def test_replica_waits_for_its_slowest_stage() -> None:
    near = ServedStage(layers=range(4), num_gpus=1, inside=Source(set(ALL), INSIDE), outside=())
    far = ServedStage(
        layers=range(4, 8),
        num_gpus=1,
        inside=Source(set(), INSIDE),
        outside=[Source(set(ALL), LINK)],
    )
    assert reshard_seconds([near, far], bytes_per_layer=1e9) == pytest.approx(4.1)
