import json
from typing import Any

import pytest

from hetrl_api.load import read_fleet
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_core.job.spec import PoolSpec, ResourcesSpec
from tests.api.objects import (
    a_topology,
    load_fleet,
)
from tests.api.topology_mistakes import INVALID_TOPOLOGIES


@pytest.mark.parametrize(("topology", "said"), INVALID_TOPOLOGIES)
def test_invalid_topology_is_refused_with_reason(
    topology: dict[str, Any], said: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidObjectError) as refusal:
        load_fleet(json.dumps(topology))

    assert all(part in str(refusal.value) for part in said), refusal.value


def a_node(name: str, *, product: str, gpus: int = 8, **changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "deletionTimestamp": changes.get("deleted"),
            "labels": {
                "nvidia.com/gpu.product": product,
                "topology.kubernetes.io/region": "eu",
                "topology.kubernetes.io/zone": "eu-1",
                "site": "edge",
            },
        },
        "spec": {"unschedulable": changes.get("cordoned", False)},
        "status": {
            "allocatable": {"nvidia.com/gpu": str(gpus), "cpu": "8"},
            "conditions": [{"type": "Ready", "status": changes.get("ready", "True")}],
        },
    }


def fleet_text(*objects: dict[str, Any]) -> str:
    return json.dumps({"kind": "List", "apiVersion": "v1", "items": list(objects)})


def test_two_pools_of_one_name_are_refused() -> None:
    again = a_topology({"metadata.name": "again"})

    with pytest.raises(InvalidObjectError, match="two machines have the same name"):
        load_fleet(fleet_text(a_topology(), again))


def test_nodes_become_machines() -> None:
    fleet = load_fleet(fleet_text(a_node("n1", product="NVIDIA-A100-SXM4-40GB")))

    (machine,) = fleet.machines
    assert (machine.name, machine.gpu_kind, machine.num_gpus) == ("n1", "A100-40GB", 8)
    assert (machine.region, machine.zone, machine.pool) == ("eu", "eu-1", "")
    assert [kind.name for kind in fleet.gpu_kinds] == ["A100-40GB"]


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        pytest.param(
            [a_node(f"n{number}", product="NVIDIA-L4", cordoned=True) for number in range(5)],
            "5 nodes left out (n0, n1, n2 and 2 more): cordoned",
            id="cordoned",
        ),
        pytest.param(
            [a_node("lost", product="NVIDIA-L4", ready="Unknown", cordoned=True)],
            "1 node left out (lost): not ready",
            id="not ready",
        ),
        pytest.param(
            [a_node("bare", product="NVIDIA-L4", gpus=0)],
            "1 node left out (bare): its label names a GPU, but it has no nvidia.com/gpu",
            id="no device plugin",
        ),
        pytest.param(
            [a_node(name, product="NVIDIA-A100-SXM4-40GB-MIG-1g.5gb") for name in ("a", "b")],
            "2 nodes left out (a, b): NVIDIA-A100-SXM4-40GB-MIG-1g.5gb is a MIG slice, not a whole "
            "GPU",
            id="sliced",
        ),
        pytest.param(
            [a_node("going", product="NVIDIA-L4", deleted="2026-01-31T12:00:00Z")],
            "1 node left out (going): being deleted",
            id="deleted",
        ),
    ],
)
def test_nodes_without_room_for_pods_are_left_out_and_named(
    nodes: list[dict[str, Any]], said: str
) -> None:
    fleet = read_fleet(fleet_text(a_node("good", product="NVIDIA-L4"), *nodes))

    assert [place.machine.name for place in fleet.places] == ["good"]
    assert fleet.left_out(ResourcesSpec()) == (said,)


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        pytest.param(PoolSpec(name="p", gpu_product="L4"), "1 node left out (n2)", id="kind"),
        pytest.param(
            PoolSpec(name="p", gpu_product="NVIDIA-L4"), "1 node left out (n2)", id="label"
        ),
        pytest.param(
            PoolSpec(name="p", node_selector=(("site", "edge"),)), "2 nodes left out", id="labels"
        ),
        pytest.param(PoolSpec(name="p", gpu_product="H100-80GB"), "", id="another kind"),
    ],
)
def test_job_hears_only_of_nodes_that_it_would_take(pool: PoolSpec, said: str) -> None:
    fleet = read_fleet(
        fleet_text(
            a_node("good", product="NVIDIA-L4"),
            a_node("n1", product="NVIDIA-A100-SXM4-40GB", cordoned=True),
            a_node("n2", product="NVIDIA-L4", cordoned=True),
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "without GPUs"}},
        )
    )

    found = fleet.left_out(ResourcesSpec(pools=(pool,)))

    assert "; ".join(found).startswith(said)
    assert bool(found) == bool(said)


def test_fleet_of_unknown_gpus_is_reported() -> None:
    with pytest.raises(InvalidObjectError, match="'Voodoo-3' is not in the catalogue"):
        load_fleet(fleet_text(a_node("n1", product="Voodoo-3")))


@pytest.mark.parametrize(
    ("capability", "names"),
    [
        pytest.param({}, ["l4-000"], id="catalogue"),
        pytest.param({"computeCapability": 8.0}, ["l4-000", "t4-000"], id="topology"),
    ],
)
def test_gpus_without_bfloat16_are_left_out_with_remedy(
    capability: dict[str, float], names: list[str]
) -> None:
    pools = [
        {"name": each.lower(), "gpuKind": each, "machines": 1, "gpusPerMachine": 4}
        for each in ("L4", "T4")
    ]
    topology = a_topology({"spec.pools": pools, "spec.gpuKinds": [{"name": "T4", **capability}]})
    fleet = read_fleet(json.dumps(topology))
    assert [place.machine.name for place in fleet.places] == names
    said = "; ".join(fleet.left_out(ResourcesSpec()))
    is_named = "no bfloat16" in said and "such as A10G" in said
    assert is_named is not bool(capability)


def test_node_without_bfloat16_stays_known_to_its_pods() -> None:
    fleet = read_fleet(fleet_text(a_node("n1", product="Tesla-V100-SXM2-16GB")))
    assert not fleet.places
    (closed,) = fleet.closed(ResourcesSpec(), {"n1"})
    assert closed.machine
    assert closed.machine.num_gpus == 8


def test_topology_records_fp8_peak() -> None:
    topology = a_topology({"spec.gpuKinds": [{"name": "L4", "peakTeraflops": {"fp8": 200}}]})
    assert load_fleet(json.dumps(topology)).kind("L4").fp8_flops == 200e12


def test_topology_overrides_the_catalogue_and_adds_kinds() -> None:
    teraflops = {"bf16": 100}
    fleet = load_fleet(
        fleet_text(
            a_node("n1", product="NVIDIA-L4"),
            a_node("n2", product="Voodoo-3"),
            a_topology(
                {
                    "spec.pools": [],
                    "spec.gpuKinds": [
                        {"name": "L4", "dollarsPerHour": 0.5},
                        {
                            "name": "Voodoo",
                            "products": ["Voodoo-3"],
                            "memoryGiB": 16,
                            "peakTeraflops": teraflops,
                            "hbmGigabytesPerSecond": 100,
                            "intraNodeGigabytesPerSecond": 10,
                            "dollarsPerHour": 0.1,
                        },
                    ],
                }
            ),
        )
    )

    assert fleet.kind("L4").dollars_per_hour == 0.5
    assert fleet.kind("L4").bf16_flops == 121e12
    assert fleet.kind("Voodoo").memory_bytes == 16 * 1024**3
    assert {machine.gpu_kind for machine in fleet.machines} == {"L4", "Voodoo"}


def test_new_kind_that_says_too_little_is_refused() -> None:
    topology = a_topology(
        {
            "spec.gpuKinds": [{"name": "Voodoo", "memoryGiB": 16}],
            "spec.pools": [{"name": "v", "gpuKind": "Voodoo", "machines": 1, "gpusPerMachine": 1}],
        }
    )

    with pytest.raises(InvalidObjectError, match=r"also needs peakTeraflops\.bf16, hbm"):
        load_fleet(json.dumps(topology))


def test_pools_of_a_topology_become_machines() -> None:
    fleet = load_fleet(json.dumps(a_topology()))

    assert [machine.name for machine in fleet.machines] == ["l4-000", "l4-001"]
    assert fleet.num_gpus == 8


def test_links_and_regions_become_links() -> None:
    link = {"from": "eu", "to": "us", "bandwidthGbps": 8, "latencyMilliseconds": 80}
    fleet = load_fleet(
        json.dumps(
            a_topology(
                {"spec.links": [link], "spec.regions": [{"name": "eu", "bandwidthGbps": 16}]}
            )
        )
    )

    assert fleet.link("us", "eu").bytes_per_second == 1e9
    assert fleet.link("us", "eu").latency_seconds == 0.08
    assert fleet.link("eu", "eu").bytes_per_second == 2e9


@pytest.mark.parametrize(
    ("pool", "names"),
    [
        (PoolSpec(name="p", gpu_product="L4"), ["n2"]),
        (PoolSpec(name="p", gpu_product="NVIDIA-A100-SXM4-40GB"), ["n1"]),
        (PoolSpec(name="p", gpu_product="A100-SXM4-40GB"), ["n1"]),
        (PoolSpec(name="p", node_selector=(("site", "edge"),)), ["n1", "n2"]),
        (PoolSpec(name="p", node_selector=(("site", "core"),)), []),
    ],
    ids=["kind", "label", "label of an older driver", "labels", "other labels"],
)
def test_job_gets_the_machines_of_its_pools(pool: PoolSpec, names: list[str]) -> None:
    text = fleet_text(
        a_node("n1", product="NVIDIA-A100-SXM4-40GB"), a_node("n2", product="NVIDIA-L4")
    )

    fleet = load_fleet(text, resources=ResourcesSpec(pools=(pool,)))

    assert [(machine.name, machine.pool) for machine in fleet.machines] == [
        (name, "p") for name in names
    ]
