from dataclasses import replace

import numpy as np
import pytest

from hetrl_core.fleet.snapshot import Link
from hetrl_planner.partition.graph import DeviceGraph
from tests.builders import a_fleet, both
from tests.partition.builders import a_graph, sites


def test_devices_of_one_machine_are_joined_by_its_interconnect() -> None:
    fleet = a_fleet(l4=16)
    first, second = fleet.machines
    graph = DeviceGraph.of_machines(fleet, [first, first, second])

    assert graph.bytes_per_second[0, 1] == fleet.kind("L4").intra_node_bytes_per_second
    assert graph.bytes_per_second[0, 2] == fleet.link("local", "local").bytes_per_second
    assert graph.names == ("l4-0/0", "l4-0/1", "l4-1/0")


def test_link_counts_as_the_worse_of_its_directions() -> None:
    there = Link(source="a", target="b", bytes_per_second=2e9, latency_seconds=0.03)
    back = Link(source="b", target="a", bytes_per_second=1e9, latency_seconds=0.01)
    fleet = both(a_fleet(l4=8, region="a"), a_fleet(l4=8, region="b"), links=(there, back))
    graph = DeviceGraph.of_machines(fleet, fleet.machines)
    assert (graph.bytes_per_second[0, 1], graph.latency_seconds[0, 1]) == (1e9, 0.03)


def test_device_weighs_its_flops() -> None:
    fleet = a_fleet(l4=8, l40s=8)
    graph = DeviceGraph.of_machines(fleet, fleet.machines, gpus_per_device=4)
    assert list(graph.weights) == [
        4 * fleet.kind(machine.gpu_kind).bf16_flops for machine in fleet.machines
    ]


def test_devices_that_may_be_exchanged_are_of_one_class() -> None:
    assert list(sites(3, 2, 1).class_of) == [0, 0, 0, 1, 1, 2]


def test_devices_with_equal_links_to_other_places_are_not_alike() -> None:
    # A ring: each has one fast neighbour on either side, but not the same ones.
    graph = a_graph([[0, 9, 1, 9], [0, 0, 9, 1], [0, 0, 0, 9], [0, 0, 0, 0]])
    assert list(graph.class_of) == [0, 1, 0, 1]


def test_different_weights_tell_devices_apart() -> None:
    graph = replace(sites(4), weights=np.array([1.0, 2.0, 1.0, 2.0]))
    assert list(graph.class_of) == [0, 1, 0, 1]


def test_disconnected_pair_is_refused_by_name() -> None:
    with pytest.raises(
        ValueError,
        match=r"bytes_per_second between device-0 and device-2 is 0\.0, and must be > 0: "
        "a disconnected pair cannot be planned with",
    ):
        a_graph([[0, 1, 0], [0, 0, 1], [0, 0, 0]])


def test_negative_latency_is_refused() -> None:
    with pytest.raises(ValueError, match="latency_seconds between device-0 and device-1 is -0"):
        a_graph([[0, 1], [0, 0]], milliseconds=-1)


@pytest.mark.parametrize(
    "bandwidth", [np.ones((2, 3)), np.array([[1.0, 2.0], [3.0, 1.0]])], ids=["shape", "symmetry"]
)
def test_matrix_of_no_graph_is_refused(bandwidth: np.ndarray) -> None:
    with pytest.raises(ValueError, match="bytes_per_second must be a symmetric matrix of 2 x 2"):
        replace(sites(2), bytes_per_second=bandwidth)
