"""Products as nodes label them, and the kinds of the catalogue that they are."""

import re
from dataclasses import dataclass
from functools import lru_cache

from hetrl_core.fleet.catalogue import catalogued
from hetrl_core.fleet.snapshot import GpuKind

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
    (r"h100( sxm5?)?( 80gb)?( hbm3e?)?", "H100-80GB"),
    (r"h800( sxm5?)?( 80gb)?( hbm3)?", "H800-80GB"),
    (r"h200 (141gb )?nvl", "H200-NVL"),
    (r"h200( sxm5?)?( 141gb)?( hbm3e)?", "H200"),
    (r"h20( 3e| 141gb)( hbm3e)?", "H20-141GB"),
    (r"h20( 96gb)?( hbm3)?", "H20"),
    # The 480 GB of a GH200's label are its CPU's.
    (r"gh200 (144gb?|480gb 144gb?)( hbm3e)?", "GH200-144GB"),
    (r"gh200( 480gb)?( 96gb)?( hbm3)?", "GH200-96GB"),
    (r"(g?b[23]00)( sxm6)?( ac)?( \d+gb)?( hbm3e)?( nvl)?", r"\1"),
    (r"rtx pro 6000 (blackwell )?(max q )?workstation( edition)?", "RTX-PRO-6000-Workstation"),
    (r"rtx pro 6000( blackwell)?( server)?( edition)?", "RTX-PRO-6000"),
    (r"rtx 6000 ada( generation)?", "RTX-6000-Ada"),
    (r"(rtx )?a6000", "RTX-A6000"),
    (r"(geforce )?rtx (3090|4090|5090)", r"RTX-\2"),
    (r"v100 (sxm[23] |pcie )?16gb", "V100-16GB"),
    (r"v100 (sxm[23] |pcie )?32gb", "V100-32GB"),
    (r"v100s (pcie )?32gb( pcie)?", "V100S-32GB-PCIe"),
    (r"(l40s|l40|l20|l4|a10g|a10|a30|a40|t4)( pcie)?( \d+gb)?", r"\1"),
)


@dataclass(frozen=True, slots=True)
class NotEligible:
    """A GPU product that cannot be planned with, and why."""

    reason: str


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
