import pytest

from hetrl_core.fleet.catalogue import CATALOGUE, catalogued
from hetrl_core.fleet.products import NotEligible, kind_of_product
from hetrl_core.fleet.snapshot import GpuKind

FP8_CAPABILITY = 8.9


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA-A100-SXM4-40GB", "A100-40GB"),
        ("A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA-A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA-A100-PCIE-40GB", "A100-40GB-PCIe"),
        ("NVIDIA-A100-80GB-PCIe", "A100-80GB-PCIe"),
        ("NVIDIA-A800-SXM4-80GB", "A800-80GB"),
        ("NVIDIA-H100-80GB-HBM3", "H100-80GB"),
        ("NVIDIA-H100-PCIe", "H100-80GB-PCIe"),
        ("NVIDIA-H100-NVL", "H100-94GB-NVL"),
        ("NVIDIA-H800", "H800-80GB"),
        ("NVIDIA-H200", "H200"),
        ("NVIDIA-H20", "H20"),
        ("NVIDIA-L40S", "L40S"),
        ("NVIDIA-L40", "L40"),
        ("NVIDIA-L4", "L4"),
        ("NVIDIA-A10", "A10"),
        ("NVIDIA-A10G", "A10G"),
        ("NVIDIA-A30", "A30"),
        ("NVIDIA-H200-NVL", "H200-NVL"),
        ("NVIDIA-H100-80GB-HBM3e", "H100-80GB"),
        ("NVIDIA-H20-3e", "H20-141GB"),
        ("NVIDIA-GH200-480GB", "GH200-96GB"),
        ("NVIDIA-GH200-144G-HBM3e", "GH200-144GB"),
        ("NVIDIA-B200", "B200"),
        ("NVIDIA-B300-SXM6-AC", "B300"),
        ("NVIDIA-GB200", "GB200"),
        ("NVIDIA-GB300", "GB300"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX-PRO-6000"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition", "RTX-PRO-6000-Workstation"),
        (
            "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition",
            "RTX-PRO-6000-Workstation",
        ),
        ("NVIDIA-RTX-6000-Ada-Generation", "RTX-6000-Ada"),
        ("NVIDIA-RTX-A6000", "RTX-A6000"),
        ("NVIDIA-L20", "L20"),
        ("NVIDIA-GeForce-RTX-3090", "RTX-3090"),
        ("NVIDIA-GeForce-RTX-4090", "RTX-4090"),
        ("NVIDIA-GeForce-RTX-5090", "RTX-5090"),
        ("Tesla-V100S-PCIE-32GB", "V100S-32GB-PCIe"),
        ("Tesla-V100-PCIE-16GB", "V100-16GB"),
        ("Tesla-T4", "T4"),
        ("Tesla-V100-SXM2-16GB", "V100-16GB"),
        ("Tesla-V100-SXM3-32GB", "V100-32GB"),
    ],
)
def test_node_label_names_a_kind(product: str, name: str) -> None:
    assert kind_of_product(product) == catalogued(name)


@pytest.mark.parametrize("kind", CATALOGUE, ids=lambda kind: kind.name)
def test_catalogue_names_can_stand_in_a_label(kind: object) -> None:
    assert kind_of_product(kind.name) == kind  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("product", "reason"),
    [
        pytest.param("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "MIG slice", id="mig"),
        pytest.param("NVIDIA-L4-SHARED", "shared between pods", id="time-sliced"),
        pytest.param("NVIDIA-GeForce-RTX-2080", "not in the catalogue", id="unknown"),
        pytest.param("", "not in the catalogue", id="no label"),
        pytest.param("NVIDIA-L40SX", "not in the catalogue", id="longer name"),
    ],
)
def test_product_that_is_no_whole_known_gpu_is_refused(product: str, reason: str) -> None:
    refused = kind_of_product(product)
    assert isinstance(refused, NotEligible)
    assert reason in refused.reason


def test_names_are_unique() -> None:
    assert len({kind.name for kind in CATALOGUE}) == len(CATALOGUE)


def test_peaks_are_dense() -> None:
    # The figures with sparsity are twice these; mixing them up makes an L4 an L40.
    peaks = {kind.name: round(kind.bf16_flops / 1e12) for kind in CATALOGUE}
    dense = {"A100-40GB": 312, "L40S": 362, "L4": 121, "H100-80GB": 989, "T4": 65}
    assert {name: peaks[name] for name in dense} == dense


def test_obstacle_names_capability_and_remedy() -> None:
    without = {kind.name for kind in CATALOGUE if kind.obstacle}
    assert without == {"T4", "V100-16GB", "V100-32GB", "V100S-32GB-PCIe"}
    t4 = catalogued("T4")
    assert t4
    assert all(each in t4.obstacle for each in ("compute capability 7.5", "bfloat16", "A10G"))


def test_warning_names_consumer_cards() -> None:
    assert {kind.name for kind in CATALOGUE if kind.warning} == {
        "RTX-3090",
        "RTX-4090",
        "RTX-5090",
    }


@pytest.mark.parametrize("kind", CATALOGUE, ids=lambda kind: kind.name)
def test_fp8_peak_follows_compute_capability(kind: GpuKind) -> None:
    assert kind.compute_capability
    assert (kind.fp8_flops is not None) == (kind.compute_capability >= FP8_CAPABILITY)
    assert kind.fp8_flops is None or kind.fp8_flops == pytest.approx(2 * kind.bf16_flops, rel=0.02)


def test_two_a100s_differ_in_bandwidth() -> None:
    small, large = catalogued("A100-40GB"), catalogued("A100-80GB")
    assert small
    assert large
    assert (small.hbm_bytes_per_second, large.hbm_bytes_per_second) == (1555e9, 2039e9)
