"""Seconds, bytes and dollars of a version on its way to rollouts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.fleet.snapshot import ClusterSnapshot, Link
from hetrl_core.job.spec import WeightEncoding, WeightTransport
from hetrl_core.units import GIB, MIB
from hetrl_core.weights import constants
from hetrl_core.weights.way import WeightWay
from hetrl_planner.cost.network import Channel
from hetrl_planner.cost.weights import Delivery, applying_seconds, gather_seconds, weight_syncs
from hetrl_planner.problem.workload import Workload, workload
from tests.builders import ARCHITECTURES, a_fleet, a_job

FAST = Channel(bytes_per_second=12.5e9, latency_seconds=50e-6)
SLOW = Channel(bytes_per_second=0.125e9, latency_seconds=0.06)


def a_workload(model: str = "Qwen3-8B", **changes: object) -> Workload:
    return replace(workload(a_job(model), ARCHITECTURES[model]), **changes)  # type: ignore[arg-type]


def a_delivery(link: Channel = FAST, *, readers: int = 1, size_bytes: float = 16e9) -> Delivery:
    return Delivery(
        size_bytes=size_bytes, changed_share=0.01, readers=readers, link=link, local=FAST
    )


def two_regions(bytes_per_second: float = 0.125e9, *, egress: float = 0.1) -> ClusterSnapshot:
    link = Link(
        source="us",
        target="eu",
        bytes_per_second=bytes_per_second,
        latency_seconds=0.05,
        egress_dollars_per_gib=egress,
    )
    return a_fleet(l4=8, links=(link,))


@pytest.mark.parametrize(
    ("readers", "seconds"),
    [
        pytest.param(1, 0.46, id="one"),
        pytest.param(2, 0.72, id="two"),
        pytest.param(4, 1.39, id="four"),
    ],
)
def test_grpc_readers_take_what_the_wire_proof_measured(readers: int, seconds: float) -> None:
    # There one core digests, and then it sends to all.
    size_bytes = 256 * MIB
    predicted = (
        size_bytes / constants.DIGEST.value + readers * size_bytes / constants.SENDING_CORE.value
    )
    assert predicted == pytest.approx(seconds, rel=0.1)


@pytest.mark.parametrize(
    ("readers", "seconds"),
    [
        pytest.param(1, 0.46, id="one"),
        pytest.param(2, 0.58, id="two"),
        pytest.param(4, 0.97, id="four"),
    ],
)
def test_gloo_readers_take_what_the_wire_proof_measured(readers: int, seconds: float) -> None:
    # There all workers share one core.
    size_bytes = 256 * MIB
    predicted = size_bytes / constants.DIGEST.value + max(
        size_bytes / constants.BROADCAST_GLOO.value,
        readers * size_bytes / constants.RECEIVING_CORE.value,
    )
    assert predicted == pytest.approx(seconds, rel=0.1)


@pytest.mark.parametrize(
    ("way", "link", "readers", "seconds"),
    [
        pytest.param(WeightWay.WHOLE, FAST, 1, 16 / 0.8756, id="whole-one-stream"),
        pytest.param(WeightWay.WHOLE, FAST, 4, 4 * 16 / 0.9, id="whole-four-share-a-core"),
        pytest.param(WeightWay.WHOLE, SLOW, 2, 2 * 128, id="whole-two-share-a-link"),
        pytest.param(WeightWay.BROADCAST, FAST, 8, 16 / 2.6, id="broadcast-of-any-number"),
        pytest.param(WeightWay.RELAYED_WHOLE, SLOW, 3, 128 + 2 * 16 / 0.9, id="relayed-whole"),
        pytest.param(
            WeightWay.PATCHES, SLOW, 4, 16 / 1.79 + 4 * 1.28 + 16 / 1.79 + 5, id="patches"
        ),
        pytest.param(
            WeightWay.RELAYED_PATCHES,
            SLOW,
            3,
            16 / 1.79 + 1.28 + 16 / 1.79 + 5 + 2 * 16 / 0.9,
            id="relayed-patches",
        ),
    ],
)
def test_delivery_takes_its_bytes_over_the_slowest_part(
    way: WeightWay, link: Channel, readers: int, seconds: float
) -> None:
    assert a_delivery(link, readers=readers).seconds(way) == pytest.approx(seconds, rel=0.01)


SIZES = st.floats(1e6, 1e12)
LINKS = st.builds(Channel, bytes_per_second=st.floats(1e6, 1e11), latency_seconds=st.floats(0, 0.3))


@given(way=st.sampled_from(WeightWay), size=SIZES, link=LINKS, readers=st.integers(1, 64))
def test_delivery_never_gains_from_readers_bytes_or_slow_links(
    way: WeightWay, size: float, link: Channel, readers: int
) -> None:
    one = a_delivery(link, readers=readers, size_bytes=size)
    for worse in (
        replace(one, readers=readers + 1),
        replace(one, size_bytes=2 * size),
        replace(one, link=replace(link, bytes_per_second=link.bytes_per_second / 2)),
    ):
        assert worse.seconds(way) >= one.seconds(way)
        assert worse.sent_bytes(way) >= one.sent_bytes(way)


@given(
    readers=st.dictionaries(st.sampled_from(["us", "eu"]), st.integers(1, 32), min_size=1),
    transport=st.sampled_from(WeightTransport),
    encoding=st.sampled_from(WeightEncoding),
    rate=st.floats(1e7, 1e10),
)
def test_weights_never_exceed_a_links_or_the_senders_rate(
    readers: dict[str, int], transport: WeightTransport, encoding: WeightEncoding, rate: float
) -> None:
    work = a_workload(weight_transport=transport, weight_encoding=encoding)
    found = weight_syncs(work, two_regions(rate), trainer_region="us", readers=readers)

    for region, sync in found.items():
        link = rate if region == "eu" else 12.5e9
        assert sync.sent_bytes <= link * sync.transfer_seconds
    fetched = [each for each in found.values() if each.sent_bytes]
    total_bytes = sum(each.sent_bytes for each in fetched)
    for each in fetched:
        assert total_bytes <= constants.SENDING_CORE.value * each.transfer_seconds


@pytest.mark.parametrize(
    ("changes", "region", "readers", "way"),
    [
        pytest.param({}, "us", 1, WeightWay.WHOLE, id="near"),
        pytest.param({}, "us", 16, WeightWay.PATCHES, id="many-readers-share-a-core"),
        pytest.param({}, "eu", 8, WeightWay.PATCHES, id="slow-link"),
        pytest.param(
            {"weight_encoding": WeightEncoding.WHOLE},
            "eu",
            8,
            WeightWay.RELAYED_WHOLE,
            id="slow-link-whole",
        ),
        pytest.param(
            {"weight_transport": WeightTransport.NCCL}, "us", 1, WeightWay.BROADCAST, id="nccl"
        ),
        pytest.param(
            {"weight_transport": WeightTransport.NCCL}, "eu", 8, WeightWay.PATCHES, id="nccl-away"
        ),
        pytest.param(
            {"weight_transport": WeightTransport.AUTO}, "us", 16, WeightWay.BROADCAST, id="auto"
        ),
        pytest.param(
            {
                "weight_transport": WeightTransport.AUTO,
                "weight_encoding": WeightEncoding.PATCHES,
            },
            "us",
            16,
            WeightWay.PATCHES,
            id="auto-patches",
        ),
    ],
)
def test_weight_way_is_the_quickest_that_the_job_allows(
    changes: dict[str, object], region: str, readers: int, way: WeightWay
) -> None:
    work = a_workload(**changes)
    found = weight_syncs(work, two_regions(), trainer_region="us", readers={region: readers})
    assert found[region].way is way


def test_egress_is_that_of_the_bytes_sent() -> None:
    whole = a_workload(weight_encoding=WeightEncoding.WHOLE)
    size_bytes = 2 * whole.architecture.num_parameters
    found = weight_syncs(whole, two_regions(), trainer_region="us", readers={"eu": 4})["eu"]
    assert found.egress_dollars == pytest.approx(0.1 * size_bytes / GIB)

    patched = replace(whole, weight_encoding=WeightEncoding.PATCHES, mean_share=0.02)
    found = weight_syncs(patched, two_regions(), trainer_region="us", readers={"eu": 4})["eu"]
    assert found.way is WeightWay.PATCHES
    assert found.egress_dollars == pytest.approx(0.1 * 4 * 0.02 * size_bytes / GIB)


def test_stated_way_is_priced_as_stated() -> None:
    stated = {"eu": WeightWay.RELAYED_WHOLE}
    found = weight_syncs(
        a_workload(), two_regions(), trainer_region="us", readers={"eu": 8}, stated=stated
    )["eu"]
    assert found.way is WeightWay.RELAYED_WHOLE


def test_patch_takes_longer_than_its_bytes_and_application() -> None:
    delivery = a_delivery(SLOW)
    bytes_alone = 0.01 * delivery.size_bytes / SLOW.bytes_per_second
    assert delivery.seconds(WeightWay.PATCHES) > bytes_alone + applying_seconds(16e9)


def test_gather_takes_each_stage_over_its_way() -> None:
    here = gather_seconds([(6e9, None)])
    assert here == pytest.approx(2.0)
    assert gather_seconds([(6e9, None), (6e9, FAST)]) == pytest.approx(2 * here + 6 / 0.9, rel=1e-3)
    assert gather_seconds([(6e9, None), (6e9, SLOW)]) == pytest.approx(2 * here + 48, rel=0.01)
