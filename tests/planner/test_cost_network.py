from hetrl_core.fleet.snapshot import Link
from hetrl_planner.cost.network import (
    Channel,
    all_reduce_seconds,
    between_machines,
    inside_machine,
    transfer_seconds,
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


def test_described_link_is_used_between_machines() -> None:
    link = Link(source="eu", target="eu", bytes_per_second=3e9, latency_seconds=0.2)
    channel = between_machines(a_fleet(l4=8, links=(link,)), "eu", "eu")
    assert channel == Channel(bytes_per_second=3e9, latency_seconds=0.2)
