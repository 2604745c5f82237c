"""The measured constants of data transport, each with its origin and source.

``docs/results/wire.md`` is measured by ``make proof-wire`` on processors with AES and SHA
instructions; a rate is of one core, as the processes there had one each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Origin(StrEnum):
    """The origin of a figure that the cost model uses."""

    MEASURED = "measured"
    """By this project, with its own runtime."""

    CALIBRATED = "calibrated"
    """Fitted to measurements that others have published."""

    CATALOGUE = "catalogue"
    """From a data sheet, a price list or a topology."""

    ASSUMED = "assumed"
    """An estimate that no measurement supports yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A figure, its unit and where it comes from."""

    name: str
    value: float
    unit: str
    origin: Origin
    source: str


_WIRE = "docs/results/wire.md"

STREAM = Constant(
    name="one gRPC stream of weights",
    value=835 * 2**20,
    unit="bytes/s",
    origin=Origin.MEASURED,
    source=f"{_WIRE}, weights out of the trainer: mutual TLS, CRC32C, chunks of 4 MiB",
)
SENDING_CORE = Constant(
    name="gRPC streams to all readers, by the trainer's core",
    value=0.9e9,
    unit="bytes/s",
    origin=Origin.MEASURED,
    source=f"{_WIRE}, one version to several workers: 0.30 s of the trainer for each 256 MiB",
)
DIGEST = Constant(
    name="SHA-256 of a version",
    value=1.79e9,
    unit="bytes/s",
    origin=Origin.MEASURED,
    source=f"{_WIRE}, one version to several workers: 0.15 s for each 256 MiB, once a version",
)
BROADCAST_GLOO = Constant(
    name="broadcast by gloo, the trainer's core",
    value=0.9e9,
    unit="bytes/s",
    origin=Origin.MEASURED,
    source=f"{_WIRE}, one version to several workers, Nccl between processors",
)
RECEIVING_CORE = Constant(
    name="a broadcast's bytes into one worker, its core",
    value=1.28e9,
    unit="bytes/s",
    origin=Origin.MEASURED,
    source=f"{_WIRE}, one version to several workers: 0.21 s of a worker for each 256 MiB",
)
BROADCAST_NCCL = Constant(
    name="broadcast by NCCL, through the memory of both hosts",
    value=2.6e9,
    unit="bytes/s",
    origin=Origin.CALIBRATED,
    source="verl, docs/advance/delta_weight_sync.md: Qwen2.5-7B, 14.2 GiB in 5.5 to 6 s",
)
PATCH_MADE = Constant(
    name="XOR and compression of a version, processor time",
    value=0.75,
    unit="s/GB",
    origin=Origin.MEASURED,
    source=f"{_WIRE}, what a step changes: 0.38 s for 0.208 GB, less two digests",
)
PATCH_APPLIED = Constant(
    name="decompression and XOR of a version, processor time",
    value=2.5,
    unit="s/GB",
    origin=Origin.MEASURED,
    source=f"{_WIRE}, what a step changes: 0.63 s for 0.208 GB, less one digest",
)
PATCH_THREADS = Constant(
    name="threads that make or apply a patch",
    value=8,
    unit="threads",
    origin=Origin.MEASURED,
    source="hetrl_runtime/transport/weights/patch.py: at most 8, and one a core",
)
LOAD = Constant(
    name="a version into an engine, while it pauses",
    value=1.39e9,
    unit="bytes/s",
    origin=Origin.MEASURED,
    source=f"{_WIRE}, all the way into an engine: transformers, 198 MiB in 0.149 s",
)
FILE = Constant(
    name="a version into the file that vLLM reads",
    value=1.5e9,
    unit="bytes/s",
    origin=Origin.CALIBRATED,
    source="prime-rl, benchmarks/baselines: a version of 7.5 GiB is published in 5.1 to 5.9 s",
)
DEVICE_TO_HOST = Constant(
    name="tensors from a GPU to its host, one at a time",
    value=3e9,
    unit="bytes/s",
    origin=Origin.ASSUMED,
    source="pageable copies over PCIe",
)
GATHER = Constant(
    name="tensors of later stages to the trainer's first process",
    value=0.9e9,
    unit="bytes/s",
    origin=Origin.ASSUMED,
    source="as a broadcast by gloo: the same process group, one tensor at a time",
)
CHECKPOINT_READ = Constant(
    name="a checkpoint from storage",
    value=1e9,
    unit="bytes/s",
    origin=Origin.ASSUMED,
    source="one reader of a network file system",
)

CONSTANTS: tuple[Constant, ...] = (
    STREAM,
    SENDING_CORE,
    DIGEST,
    BROADCAST_GLOO,
    RECEIVING_CORE,
    BROADCAST_NCCL,
    PATCH_MADE,
    PATCH_APPLIED,
    PATCH_THREADS,
    LOAD,
    FILE,
    DEVICE_TO_HOST,
    GATHER,
    CHECKPOINT_READ,
)
"""All of them, as ``docs/transport.md`` lists them."""

CHANGED: Mapping[str, Mapping[float, float]] = {
    "bfloat16": {1e-6: 0.010, 1e-5: 0.069},
    "float32": {1e-6: 0.391, 1e-5: 0.509},
}
"""Bytes of a patch over those of the weights, by type and learning rate, after one step of AdamW.
docs/results/wire.md, what a step changes: the model of 0.1B."""

PACKED: Mapping[str, float] = {"bfloat16": 0.687, "float32": 0.843}
"""Bytes of a patch that needs no base over those of the weights, by type: the first version, and
what a reader gets that was away for long. docs/results/wire.md, what a step changes."""
