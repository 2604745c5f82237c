"""HetRLTopology: prices, links and GPU kinds that node labels do not tell.

A fleet file for planning without a cluster is the same object, with its machines listed
as pools. What a kind leaves out comes from the shipped catalogue.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from hetrl_api.job.conditions import Conditions
from hetrl_api.job.job import Metadata
from hetrl_api.job.resources import Labels, PoolName
from hetrl_api.validation.lists import Keyed
from hetrl_api.validation.rules import ApiModel, Rule, section

Label = Annotated[str, StringConstraints(min_length=1, max_length=63)]
Positive = Annotated[float, Field(gt=0, le=1e9)]
Share = Annotated[float, Field(gt=0, le=1)]


class PeakTeraflops(ApiModel):
    """Dense peaks of one GPU by precision, in 10^12 operations per second."""

    bf16: Positive | None = None
    """Of bfloat16 matrix products."""

    fp8: Positive | None = None
    """Of fp8 matrix products. Recorded: this release computes in bf16."""


class GpuKindEntry(ApiModel):
    """One kind of GPU; what is left out comes from the shipped catalogue."""

    name: Label
    """As jobs and plans say it: A100-40GB."""

    products: Annotated[tuple[Label, ...], Field(max_length=16)] = ()
    """Values of nvidia.com/gpu.product that are of this kind."""

    peak_teraflops: PeakTeraflops = section(PeakTeraflops)
    """Dense peaks by precision."""

    memory_gib: Positive | None = Field(default=None, alias="memoryGiB")
    """Memory of one GPU."""

    hbm_gigabytes_per_second: Positive | None = None
    """Memory bandwidth."""

    intra_node_gigabytes_per_second: Positive | None = None
    """Between two GPUs of one machine."""

    dollars_per_hour: Annotated[float, Field(ge=0, le=1e6)] | None = None
    """Price of one GPU."""

    compute_efficiency: Share | None = None
    """Share of the peak that large matrix products reach."""

    memory_efficiency: Share | None = None
    """Share of the memory bandwidth that decoding reaches."""

    compute_capability: Annotated[float, Field(gt=0, le=100)] | None = None
    """CUDA compute capability, such as 8.9; below 8.0 there is no bfloat16, and machines with such
    GPUs are left out. Unset for a kind that is not in the catalogue: bfloat16 is assumed."""


class Region(ApiModel):
    """A region, and the network between its machines."""

    name: Label
    """Value of topology.kubernetes.io/region."""

    bandwidth_gbps: Positive = 100.0
    """Gigabits per second between two machines."""

    latency_milliseconds: Annotated[float, Field(ge=0, le=10_000)] = 0.05
    """One way."""


class RegionLink(ApiModel):
    """The network between two regions, in both directions."""

    source: Label = Field(alias="from")
    """One region."""

    target: Label = Field(alias="to")
    """The other."""

    bandwidth_gbps: Positive
    """Gigabits per second between two machines."""

    latency_milliseconds: Annotated[float, Field(ge=0, le=10_000)]
    """One way."""

    egress_dollars_per_gib: Annotated[float, Field(ge=0, le=1000)] = Field(
        default=0.0, alias="egressDollarsPerGiB"
    )
    """Price of moving one GiB."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            condition="self.from != self.to",
            message="spec.links must join two regions; within one, use spec.regions",
            field=".to",
        ),
    )


class MachinePool(ApiModel):
    """Machines that are alike, for planning without a cluster."""

    name: PoolName
    """Machines are named after it: name-000, name-001, …"""

    gpu_kind: Label
    """A kind of spec.gpuKinds or of the catalogue."""

    region: Label = "local"
    """Where they are."""

    machines: Annotated[int, Field(ge=1, le=100_000)]
    """How many."""

    gpus_per_machine: Annotated[int, Field(ge=1, le=64)]
    """GPUs of each."""

    labels: Labels = Field(default={})
    """Labels that nodeSelector may ask for."""


class TopologySpec(ApiModel):
    """What planning cannot read from nodes."""

    gpu_kinds: Annotated[tuple[GpuKindEntry, ...], Keyed(("name",), most=64)] = ()
    """Kinds of GPU that the catalogue does not know, or that differ from it here."""

    regions: Annotated[tuple[Region, ...], Keyed(("name",), most=64)] = ()
    """Regions whose inner network is not 100 Gbit/s."""

    links: Annotated[tuple[RegionLink, ...], Keyed(("from", "to"), most=1024)] = ()
    """Networks between regions; those not listed count as 1 Gbit/s and 60 ms."""

    pools: Annotated[tuple[MachinePool, ...], Keyed(("name",), most=256)] = ()
    """Machines, for planning without a cluster; a cluster's operator counts its nodes instead."""


class MeasuredLink(ApiModel):
    """What a link was measured to carry."""

    source: Label = Field(alias="from")
    """One region."""

    target: Label = Field(alias="to")
    """The other."""

    bandwidth_gbps: Positive
    """Gigabits per second."""

    latency_milliseconds: Annotated[float, Field(ge=0)]
    """One way."""

    measured_at: AwareDatetime
    """When."""


class TopologyStatus(ApiModel):
    """What was measured."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation that this is about."""

    conditions: Conditions = ()
    """What holds."""

    links: Annotated[tuple[MeasuredLink, ...], Field(max_length=1024)] = ()
    """Links as measured."""


class HetRLTopology(ApiModel):
    """GPU kinds, prices and links of a fleet."""

    api_version: Literal["hetrl.dev/v1alpha1"]
    kind: Literal["HetRLTopology"]
    metadata: Metadata
    spec: TopologySpec
    """What planning cannot read from nodes."""

    status: TopologyStatus | None = None
    """What was measured."""
