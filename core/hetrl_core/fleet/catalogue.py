"""Built-in GPU kinds: their figures, and the product names that nodes give them.

Every figure is a default: a HetRLTopology or a fleet file overrides it, and a measured one is
always better. A new kind is a row of ``CATALOGUE``, a pattern of ``_PRODUCTS`` and a case in
``tests/core/test_catalogue.py``; nothing else lists kinds. Editions of a product with different
figures are kinds of their own. Efficiencies are the defaults of ``GpuKind``.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from hetrl_core.fleet.snapshot import GpuKind
from hetrl_core.units import GIGA, MIB, TERA


def _kind(
    name: str,
    *,
    memory_mib: int,
    tflops: float,
    hbm: float,
    intra_node: float,
    dollars: float,
) -> GpuKind:
    return GpuKind(
        name=name,
        memory_bytes=memory_mib * MIB,
        bf16_flops=tflops * TERA,
        hbm_bytes_per_second=hbm * GIGA,
        intra_node_bytes_per_second=intra_node * GIGA,
        dollars_per_hour=dollars,
    )


# Sources, column by column:
#   memory_mib   what the driver reports (nvidia-smi, ECC on), MiB
#   tflops       dense bf16 tensor peak; datasheets print twice that figure "with sparsity"
#   hbm          GB/s of the device's memory, HBM or GDDR: NVIDIA's datasheet of the row's product
#   intra_node   GB/s in one direction: half of the datasheet's sum of both directions (NVLink),
#                or PCIe x16 where there is no NVLink
#   dollars      an hour of one GPU on demand, about AWS's us-east list price per GPU of the
#                machine named at the row's end, or the source in the comment above the row.
#                Prices change: a topology should state its own
CATALOGUE: tuple[GpuKind, ...] = (
    # NVIDIA A100 datasheet: the 40 GB part has 1555 GB/s, only the 80 GB has 2039. p4d, p4de.
    _kind("A100-40GB", memory_mib=40960, tflops=312, hbm=1555, intra_node=300, dollars=2.74),
    _kind("A100-80GB", memory_mib=81920, tflops=312, hbm=2039, intra_node=300, dollars=3.43),
    # The PCIe cards: no NVLink switch, PCIe 4.0 x16. Priced like their SXM sisters.
    _kind("A100-40GB-PCIe", memory_mib=40960, tflops=312, hbm=1555, intra_node=32, dollars=2.74),
    _kind("A100-80GB-PCIe", memory_mib=81920, tflops=312, hbm=1935, intra_node=32, dollars=3.43),
    # The A100 with NVLink cut to 400 GB/s; no public list price, so that of the A100-80GB.
    _kind("A800-80GB", memory_mib=81920, tflops=312, hbm=2039, intra_node=200, dollars=3.43),
    # NVIDIA H100 datasheet: SXM, PCIe and NVL columns.
    _kind("H100-80GB", memory_mib=81559, tflops=989, hbm=3350, intra_node=450, dollars=6.88),  # p5
    _kind("H100-80GB-PCIe", memory_mib=81559, tflops=756, hbm=2000, intra_node=64, dollars=6.88),
    _kind("H100-94GB-NVL", memory_mib=95830, tflops=835, hbm=3900, intra_node=64, dollars=6.88),
    # The H100 with NVLink cut to 400 GB/s. Price: HexGen-3's scheduler, 5.28 $/h.
    _kind("H800-80GB", memory_mib=81559, tflops=989, hbm=3350, intra_node=200, dollars=5.28),
    # 148 TFLOPS and 4000 GB/s as AReaL-Hex uses it. Price: HexGen-3's scheduler, 2.00 $/h.
    _kind("H20", memory_mib=97871, tflops=148, hbm=4000, intra_node=450, dollars=2.00),
    # NVIDIA H200 datasheet.
    _kind("H200", memory_mib=143771, tflops=989, hbm=4800, intra_node=450, dollars=7.91),  # p5en
    # NVIDIA L40S datasheet: 362.05 dense bf16 (733 with sparsity); PCIe 4.0 x16.
    _kind("L40S", memory_mib=46068, tflops=362, hbm=864, intra_node=32, dollars=1.86),  # g6e
    # NVIDIA L40 datasheet: half of the L40S's tensor rate. No AWS price: half of the L40S's.
    _kind("L40", memory_mib=46068, tflops=181, hbm=864, intra_node=32, dollars=0.93),
    # NVIDIA L4 datasheet: 121 dense bf16 (242 with sparsity).
    _kind("L4", memory_mib=23034, tflops=121, hbm=300, intra_node=32, dollars=0.80),  # g6
    # NVIDIA A10 datasheet; the A10G is AWS's own variant, 70 dense (140 with sparsity).
    _kind("A10", memory_mib=23028, tflops=125, hbm=600, intra_node=32, dollars=0.90),
    _kind("A10G", memory_mib=23028, tflops=70, hbm=600, intra_node=32, dollars=1.01),  # g5
    # NVIDIA A30 and A40 datasheets; no AWS price, ours by analogy with the A10.
    _kind("A30", memory_mib=24576, tflops=165, hbm=933, intra_node=32, dollars=1.00),
    _kind("A40", memory_mib=46068, tflops=149.7, hbm=696, intra_node=32, dollars=1.10),
    # NVIDIA T4 and V100 datasheets: the fp16 tensor peak, for these have no bf16.
    _kind("T4", memory_mib=15360, tflops=65, hbm=320, intra_node=16, dollars=0.53),  # g4dn
    _kind("V100-16GB", memory_mib=16384, tflops=125, hbm=900, intra_node=150, dollars=3.06),  # p3
    _kind("V100-32GB", memory_mib=32768, tflops=125, hbm=900, intra_node=150, dollars=3.90),  # p3dn
)

# Spellings of the label `nvidia.com/gpu.product`, after `_normal`, and the kind's name. The first
# pattern that matches the whole spelling counts.
_PRODUCTS: tuple[tuple[str, str], ...] = (
    (r"a100 (pcie|pg\d+) 40gb|a100 40gb pcie", "A100-40GB-PCIe"),
    (r"a100 (pcie|pg\d+) 80gb|a100 80gb pcie", "A100-80GB-PCIe"),
    (r"a100( sxm4?)? 40gb|a100 40gb( sxm4?)?", "A100-40GB"),
    (r"a100( sxm4?)? 80gb|a100 80gb( sxm4?)?", "A100-80GB"),
    (r"a800( sxm4?)? 80gb|a800 80gb( sxm4?)?|a800", "A800-80GB"),
    (r"h100 (80gb )?pcie", "H100-80GB-PCIe"),
    (r"h100 (94gb )?nvl", "H100-94GB-NVL"),
    (r"h100( sxm5?)?( 80gb)?( hbm3)?", "H100-80GB"),
    (r"h800( sxm5?)?( 80gb)?( hbm3)?", "H800-80GB"),
    (r"h200( sxm5?)?( 141gb)?( hbm3e)?", "H200"),
    (r"h20( 96gb)?( hbm3)?", "H20"),
    (r"v100 (sxm[23] )?16gb", "V100-16GB"),
    (r"v100 (sxm[23] )?32gb", "V100-32GB"),
    (r"(l40s|l40|l4|a10g|a10|a30|a40|t4)( pcie)?( \d+gb)?", r"\1"),
)


@dataclass(frozen=True, slots=True)
class NotEligible:
    """A GPU product that cannot be planned with, and why."""

    reason: str


def catalogued(name: str) -> GpuKind | None:
    """Return the catalogue's figures for a kind's name, ``None`` when it has none."""
    return next((kind for kind in CATALOGUE if kind.name == name), None)


# Labels are few, and nodes many: each is read again whenever the fleet changes.
@lru_cache(maxsize=1024)
def kind_of_product(product: str) -> GpuKind | NotEligible:
    """Tell the GPU kind behind a node's ``nvidia.com/gpu.product`` label, or why there is none.

    Slices of a GPU are refused: a MIG slice or a time-shared GPU has neither the memory
    nor the bandwidth that its product's datasheet promises.
    """
    if re.search(r"-MIG-", product, re.IGNORECASE):
        return NotEligible(f"{product} is a MIG slice, not a whole GPU")
    if product.upper().endswith("-SHARED"):
        return NotEligible(f"{product} is shared between pods by time-slicing or MPS")
    spelling = _normal(product)
    for pattern, name in _PRODUCTS:
        found = re.fullmatch(pattern, spelling)
        kind = found and catalogued(found.expand(name).upper() if "\\" in name else name)
        if kind:
            return kind
    return NotEligible(
        f"GPU product {product!r} is not in the catalogue; describe it in a HetRLTopology"
    )


def _normal(product: str) -> str:
    """``NVIDIA-A100-SXM4-40GB`` and ``Tesla A100-SXM4-40GB`` both become ``a100 sxm4 40gb``."""
    words = re.sub(r"[^a-z0-9]+", " ", product.lower()).split()
    return " ".join(word for word in words if word not in {"nvidia", "tesla"})
