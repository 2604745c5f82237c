import pytest

from hetrl_core.fleet.snapshot import Link
from hetrl_core.units import GIB
from hetrl_planner.cost.network import (
    Channel,
    all_reduce_seconds,
    between_machines,
    inside_machine,
    transfer_seconds,
    weight_sync,
)
from tests.builders import a_fleet, a_kind

WIRE = Channel(bytes_per_second=1e9, latency_seconds=0.5)


def test_message_takes_latency_and_bytes_over_bandwidth() -> None:
    assert transfer_seconds(3e9, WIRE) == 3.5


def test_ring_of_two_sends_half_of_everything_twice() -> None:
    assert all_reduce_seconds(4e9, members=2, channel=WIRE) == 2 * (0.5 + 2.0)


def test_ring_of_four_takes_six_steps_of_a_quarter() -> None:
    assert all_reduce_seconds(4e9, members=4, channel=WIRE) == 6 * (0.5 + 1.0)


def test_single_member_has_nothing_to_reduce() -> None:
    assert all_reduce_seconds(4e9, members=1, channel=WIRE) == 0


def test_inside_a_machine_the_gpus_own_wires_are_used() -> None:
    kind = a_kind("A100-40GB")
    assert inside_machine(kind).bytes_per_second == kind.intra_node_bytes_per_second


def test_inside_a_region_weights_cross_one_link() -> None:
    fleet = a_fleet(l4=8)  # 12.5e9 bytes a second, 50 microseconds
    found = weight_sync(12.5e9, fleet, trainer_shares={"local": 1.0}, rollout_region="local")
    assert found.transfer_seconds == 0
    assert found.load_seconds == pytest.approx(1 + 50e-6)


def test_weights_enter_another_region_once_and_are_relayed() -> None:
    link = Link(source="eu", target="us", bytes_per_second=1e9, latency_seconds=0.1)
    fleet = a_fleet(l4=8, links=(link,))
    found = weight_sync(12.5e9, fleet, trainer_shares={"us": 1.0}, rollout_region="eu")
    assert found.transfer_seconds == pytest.approx(12.5 + 0.1)
    assert found.load_seconds == pytest.approx(1 + 50e-6)
    assert found.total_seconds == pytest.approx(12.5 + 0.1 + 1 + 50e-6)


def test_trainer_in_two_regions_sends_its_parts_in_parallel() -> None:
    links = (
        Link(source="eu", target="us", bytes_per_second=1e9, latency_seconds=0.1),
        Link(
            source="asia",
            target="eu",
            bytes_per_second=2e9,
            latency_seconds=0.2,
            egress_dollars_per_gib=0.05,
        ),
    )
    fleet = a_fleet(l4=8, links=links)
    shares = {"us": 0.25, "asia": 0.5, "eu": 0.25}
    found = weight_sync(8 * GIB, fleet, trainer_shares=shares, rollout_region="eu")
    assert found.transfer_seconds == pytest.approx(max(2 * GIB / 1e9 + 0.1, 4 * GIB / 2e9 + 0.2))
    assert found.transferred_bytes == pytest.approx(6 * GIB)
    assert found.egress_dollars == pytest.approx(4 * 0.05)


def test_described_link_is_used_between_machines() -> None:
    link = Link(source="eu", target="eu", bytes_per_second=3e9, latency_seconds=0.2)
    channel = between_machines(a_fleet(l4=8, links=(link,)), "eu", "eu")
    assert channel == Channel(bytes_per_second=3e9, latency_seconds=0.2)
