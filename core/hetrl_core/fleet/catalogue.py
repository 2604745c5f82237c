"""Built-in GPU kinds: their figures, from data sheets.

Every figure is a default: a HetRLTopology or a fleet file overrides it, and a measured one is
always better. A new kind is a row of ``CATALOGUE``, a pattern in ``products`` and a case in
``tests/core/test_catalogue.py``; nothing else lists kinds. Editions of a product with different
figures are kinds of their own. Efficiencies are the defaults of ``GpuKind``.
"""

from hetrl_core.fleet.snapshot import GpuKind
from hetrl_core.units import GIGA, MIB, TERA


def _kind(  # noqa: PLR0917 - the columns of a table
    name: str,
    memory_mib: int,
    tflops: float,
    fp8: float | None,
    hbm: float,
    intra_node: float,
    capability: float,
    dollars: float,
    *,
    is_consumer: bool = False,
) -> GpuKind:
    return GpuKind(
        name=name,
        memory_bytes=memory_mib * MIB,
        bf16_flops=tflops * TERA,
        fp8_flops=fp8 * TERA if fp8 else None,
        hbm_bytes_per_second=hbm * GIGA,
        intra_node_bytes_per_second=intra_node * GIGA,
        dollars_per_hour=dollars,
        compute_capability=capability,
        is_consumer=is_consumer,
    )


# Sources, column by column:
#   memory_mib   what the driver reports (nvidia-smi, ECC on), MiB
#   tflops       dense bf16 tensor peak; datasheets print twice that figure "with sparsity"
#   fp8          dense fp8 tensor peak; none where the tensor cores lack it. Recorded: this
#                release computes in bf16
#   hbm          GB/s of the device's memory, HBM or GDDR: NVIDIA's datasheet of the row's product
#   intra_node   GB/s in one direction: half of the datasheet's sum of both directions (NVLink),
#                or PCIe x16 where there is no NVLink. Bridges that join two or four cards do
#                not count: not every pair of a machine's cards has one
#   capability   NVIDIA's list "CUDA GPU compute capability"
#   dollars      an hour of one GPU on demand, about AWS's us-east list price per GPU of the
#                machine named at the row's end, or the source in the comment above the row.
#                Prices change: a topology should state its own
CATALOGUE: tuple[GpuKind, ...] = (
    # NVIDIA A100 datasheet: the 40 GB part has 1555 GB/s, only the 80 GB has 2039. p4d, p4de.
    _kind("A100-40GB", 40960, 312, None, 1555, 300, 8.0, 2.74),
    _kind("A100-80GB", 81920, 312, None, 2039, 300, 8.0, 3.43),
    # The PCIe cards: no NVLink switch, PCIe 4.0 x16. Priced like their SXM sisters.
    _kind("A100-40GB-PCIe", 40960, 312, None, 1555, 32, 8.0, 2.74),
    _kind("A100-80GB-PCIe", 81920, 312, None, 1935, 32, 8.0, 3.43),
    # The A100 with NVLink cut to 400 GB/s; no public list price, so that of the A100-80GB.
    _kind("A800-80GB", 81920, 312, None, 2039, 200, 8.0, 3.43),
    # NVIDIA H100 datasheet: SXM (p5), PCIe and NVL columns.
    _kind("H100-80GB", 81559, 989, 1979, 3350, 450, 9.0, 6.88),
    _kind("H100-80GB-PCIe", 81559, 756, 1513, 2000, 64, 9.0, 6.88),
    _kind("H100-94GB-NVL", 95830, 835, 1671, 3900, 64, 9.0, 6.88),
    # The H100 with NVLink cut to 400 GB/s. Price: HexGen-3's scheduler, 5.28 $/h.
    _kind("H800-80GB", 81559, 989, 1979, 3350, 200, 9.0, 5.28),
    # 148 TFLOPS and 4000 GB/s as AReaL-Hex uses it. Price: HexGen-3's scheduler, 2.00 $/h. The
    # edition with HBM3e has the H200's memory; no price, ours by analogy.
    _kind("H20", 97871, 148, 296, 4000, 450, 9.0, 2.00),
    _kind("H20-141GB", 143771, 148, 296, 4800, 450, 9.0, 2.30),
    # NVIDIA H200 datasheet: SXM (p5en) and NVL columns; no AWS price of the NVL, so the SXM's.
    _kind("H200", 143771, 989, 1979, 4800, 450, 9.0, 7.91),
    _kind("H200-NVL", 143771, 835, 1671, 4800, 64, 9.0, 7.91),
    # NVIDIA GH200 datasheet, both memories. Between superchips of a machine: NVLink as in NVL2.
    # Price: Lambda's list, 1.49 $/h; no price of the larger one, so ours by analogy.
    _kind("GH200-96GB", 97871, 990, 1979, 4000, 450, 9.0, 1.49),
    _kind("GH200-144GB", 147456, 990, 1979, 4900, 450, 9.0, 1.99),
    # NVIDIA HGX datasheet of B200 and B300, a GPU: an eighth of the board's figures.
    _kind("B200", 183359, 2250, 4500, 7700, 900, 10.0, 14.24),  # p6-b200
    _kind("B300", 275040, 2250, 4500, 7700, 900, 10.3, 17.80),  # p6-b300
    # NVIDIA GB200 NVL72 and GB300 NVL72 datasheets, a GPU: a 72nd of the rack's figures. No price
    # on demand, so those of B200 and B300.
    _kind("GB200", 189471, 2500, 5000, 8000, 900, 10.0, 14.24),
    _kind("GB300", 284208, 2500, 5000, 8000, 900, 10.3, 17.80),
    # NVIDIA RTX PRO 6000 Blackwell datasheets: server (g7e), and workstation with faster memory
    # (no list price, so the server's). fp32 accumulation; PCIe 5.0 x16.
    _kind("RTX-PRO-6000", 97887, 500, 1000, 1597, 64, 12.0, 3.36),
    _kind("RTX-PRO-6000-Workstation", 97887, 504, 1008, 1792, 64, 12.0, 3.36),
    # NVIDIA L40S datasheet: 362.05 dense bf16 (733 with sparsity); PCIe 4.0 x16. g6e.
    _kind("L40S", 46068, 362, 733, 864, 32, 8.9, 1.86),
    # NVIDIA L40 datasheet: half of the L40S's tensor rate. No AWS price: half of the L40S's.
    _kind("L40", 46068, 181, 362, 864, 32, 8.9, 0.93),
    # NVIDIA L20: 119.5 dense bf16, the L40's memory. No AWS price, so the L40's.
    _kind("L20", 46068, 119.5, 239, 864, 32, 8.9, 0.93),
    # NVIDIA L4 datasheet: 121 dense bf16 (242 with sparsity). g6.
    _kind("L4", 23034, 121, 242, 300, 32, 8.9, 0.80),
    # NVIDIA RTX 6000 Ada datasheet: the L40S's chip with 960 GB/s; no AWS price, so the L40S's.
    _kind("RTX-6000-Ada", 49140, 364, 728, 960, 32, 8.9, 1.86),
    # NVIDIA RTX A6000 datasheet: 154.8 dense bf16 (309.7 with sparsity). Price: Lambda's list.
    _kind("RTX-A6000", 49140, 154.8, None, 768, 32, 8.6, 0.80),
    # NVIDIA A10 datasheet; the A10G is AWS's own variant, 70 dense (140 with sparsity).
    _kind("A10", 23028, 125, None, 600, 32, 8.6, 0.90),
    _kind("A10G", 23028, 70, None, 600, 32, 8.6, 1.01),  # g5
    # NVIDIA A30 and A40 datasheets; no AWS price, ours by analogy with the A10.
    _kind("A30", 24576, 165, None, 933, 32, 8.0, 1.00),
    _kind("A40", 46068, 149.7, None, 696, 32, 8.6, 1.10),
    # NVIDIA T4 and V100 datasheets: the fp16 tensor peak, for these have no bf16, so this release
    # does not plan with them. g4dn, p3, p3dn; no AWS price of the V100S, so the V100's.
    _kind("T4", 15360, 65, None, 320, 16, 7.5, 0.53),
    _kind("V100-16GB", 16384, 125, None, 900, 150, 7.0, 3.06),
    _kind("V100-32GB", 32768, 125, None, 900, 150, 7.0, 3.90),
    _kind("V100S-32GB-PCIe", 32768, 130, None, 1134, 16, 7.0, 3.90),
    # NVIDIA's architecture papers of GA102, AD102 and GB202: bf16 with fp32 accumulation. Prices:
    # ours, about what marketplaces ask.
    _kind("RTX-3090", 24576, 71, None, 936, 32, 8.6, 0.45, is_consumer=True),
    _kind("RTX-4090", 24564, 165.2, 330.3, 1008, 32, 8.9, 0.70, is_consumer=True),
    _kind("RTX-5090", 32607, 209.5, 419, 1792, 64, 12.0, 0.95, is_consumer=True),
)


def catalogued(name: str) -> GpuKind | None:
    """Return the catalogue's figures for a kind's name, ``None`` when it has none."""
    return next((kind for kind in CATALOGUE if kind.name == name), None)
