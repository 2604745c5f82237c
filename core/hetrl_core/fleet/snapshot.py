"""A snapshot of the fleet: GPU kinds, machines, regions and the links between them.

Callers build it from node labels and a HetRLTopology, or from a fleet described in a file. The
planner chooses among the machines.

Not-a-number passes no comparison, so limits are written to fail on it.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from hetrl_core.limits import above_zero, at_least

BF16_CAPABILITY = 8.0
"""Least compute capability with bfloat16 tensor cores (CUDA C++ programming guide)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuKind:
    """One model of GPU, as the cost model sees it."""

    name: str
    """Short name, as jobs and plans say it: ``A100-80GB``."""

    memory_bytes: int
    bf16_flops: float
    """Dense peak, operations per second."""

    hbm_bytes_per_second: float
    """Of the device's memory, HBM or GDDR."""

    intra_node_bytes_per_second: float
    """Between two GPUs of one machine: NVLink where there is one, else PCIe."""

    dollars_per_hour: float
    compute_efficiency: float = 0.45
    """Share of the peak that large matrix products reach in training and prefill."""

    memory_efficiency: float = 0.75
    """Share of the HBM bandwidth that decoding reaches."""

    fp8_flops: float | None = None
    """Dense peak, operations per second. Recorded: this release computes in bf16."""

    compute_capability: float | None = None
    """CUDA's; ``None`` where it is not known."""

    is_consumer: bool = False
    """Whether it is a card for desktop computers."""

    def __post_init__(self) -> None:
        for name in (
            "memory_bytes",
            "bf16_flops",
            "hbm_bytes_per_second",
            "intra_node_bytes_per_second",
        ):
            above_zero(f"{self.name}: {name}", getattr(self, name))
        at_least(f"{self.name}: dollars_per_hour", self.dollars_per_hour, 0)
        above_zero(f"{self.name}: fp8_flops", self.fp8_flops)
        above_zero(f"{self.name}: compute_capability", self.compute_capability)
        for name in ("compute_efficiency", "memory_efficiency"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(
                    f"{self.name}: {name} must be in (0, 1], got {getattr(self, name)}"
                )

    @property
    def obstacle(self) -> str:
        """Why this release cannot compute on it, and what to do; empty when it can."""
        capability = self.compute_capability
        if capability is None or capability >= BF16_CAPABILITY:
            return ""
        return (
            f"{self.name} has compute capability {capability:.1f} and so no bfloat16, in which "
            f"this release computes; use GPUs of compute capability {BF16_CAPABILITY:.1f} or more, "
            "such as A10G, L4 or A100"
        )

    @property
    def warning(self) -> str:
        """What speaks against using it, although it works; empty for data centre GPUs."""
        if not self.is_consumer:
            return ""
        return (
            f"{self.name} is a consumer card: NVIDIA's driver licence excludes data centres, and "
            "its GPUs exchange data through host memory; prefer replicas of one GPU, or a data "
            "centre GPU such as L4 or L40S"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One node and the GPUs on it that a job may use."""

    name: str
    gpu_kind: str
    num_gpus: int
    region: str = "local"
    zone: str = ""
    pool: str = ""
    """The job's pool that it belongs to; empty when the job names none."""

    def __post_init__(self) -> None:
        at_least(f"machine {self.name}: num_gpus", self.num_gpus, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The way from one region to another, or between machines of one region."""

    source: str
    target: str
    bytes_per_second: float
    latency_seconds: float
    egress_dollars_per_gib: float = 0.0

    def __post_init__(self) -> None:
        link = f"link {self.source} -> {self.target}"
        above_zero(f"{link}: bandwidth", self.bytes_per_second)
        at_least(f"{link}: latency", self.latency_seconds, 0)
        at_least(f"{link}: egress_dollars_per_gib", self.egress_dollars_per_gib, 0)


DEFAULT_WITHIN_REGION = Link(source="*", target="*", bytes_per_second=12.5e9, latency_seconds=50e-6)
"""Between machines of one region where nothing is said: 100 Gbit/s, as in cloud GPU nodes."""

DEFAULT_ACROSS_REGIONS = Link(
    source="*", target="*", bytes_per_second=0.125e9, latency_seconds=60e-3
)
"""Between regions where nothing is said: 1 Gbit/s and 60 ms, a modest wide-area link."""


@dataclass(frozen=True, kw_only=True)
class ClusterSnapshot:
    """The fleet at one moment. Equal snapshots give equal plans."""

    gpu_kinds: tuple[GpuKind, ...]
    machines: tuple[Machine, ...]
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        known = {kind.name for kind in self.gpu_kinds}
        for machine in self.machines:
            if machine.gpu_kind not in known:
                raise ValueError(f"machine {machine.name}: unknown GPU kind {machine.gpu_kind!r}")
        if len({machine.name for machine in self.machines}) != len(self.machines):
            raise ValueError("two machines have the same name")

    def without_unused(self) -> "ClusterSnapshot":
        """Return it without the kinds and links that no machine has: plans are the same."""
        kinds = {each.gpu_kind for each in self.machines}
        regions = {each.region for each in self.machines}
        return replace(
            self,
            gpu_kinds=tuple(each for each in self.gpu_kinds if each.name in kinds),
            links=tuple(each for each in self.links if {each.source, each.target} <= regions),
        )

    @cached_property
    def _kinds(self) -> dict[str, GpuKind]:
        return {kind.name: kind for kind in self.gpu_kinds}

    @cached_property
    def _links(self) -> dict[tuple[str, str], Link]:
        return {(link.source, link.target): link for link in self.links}

    @property
    def num_gpus(self) -> int:
        """GPUs of every kind together."""
        return sum(machine.num_gpus for machine in self.machines)

    @property
    def unlinked_regions(self) -> tuple[tuple[str, str], ...]:
        """Pairs of regions with machines between which no link is given: a default counts."""
        regions = sorted({machine.region for machine in self.machines})
        return tuple(
            (source, target)
            for source, target in combinations(regions, 2)
            if (source, target) not in self._links and (target, source) not in self._links
        )

    def kind(self, name: str) -> GpuKind:
        """Return the GPU kind of that name; ``KeyError`` when the snapshot has none."""
        return self._kinds[name]

    def link(self, source: str, target: str) -> Link:
        """Return the link between two regions, either direction; a default where none is given."""
        found = self._links.get((source, target)) or self._links.get((target, source))
        if found:
            return found
        return DEFAULT_WITHIN_REGION if source == target else DEFAULT_ACROSS_REGIONS
