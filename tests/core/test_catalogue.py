import pytest

from hetrl_core.fleet.catalogue import CATALOGUE, NotEligible, catalogued, kind_of_product


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
        pytest.param("NVIDIA-GeForce-RTX-3090", "not in the catalogue", id="unknown"),
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


def test_two_a100s_differ_in_bandwidth() -> None:
    small, large = catalogued("A100-40GB"), catalogued("A100-80GB")
    assert small
    assert large
    assert (small.hbm_bytes_per_second, large.hbm_bytes_per_second) == (1555e9, 2039e9)
