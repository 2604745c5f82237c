"""`spec.resources` and `spec.rollout`: what a plan may take, and how far rollouts scale."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from hetrl_api.validation.lists import Keyed
from hetrl_api.validation.rules import ApiModel, Rule

LabelKey = Annotated[str, StringConstraints(min_length=1, max_length=317)]
LabelValue = Annotated[str, StringConstraints(max_length=63)]
Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=32)]
PoolName = Annotated[
    str, StringConstraints(max_length=40, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]
NumGpus = Annotated[int, Field(ge=1, le=1_000_000)]
Dollars = Annotated[float, Field(ge=0, le=1e9)]


class Pool(ApiModel):
    """Machines that the job may use: those of a GPU product, with all of these labels."""

    name: PoolName
    """Of the pool, within this job."""

    gpu_product: Annotated[str, StringConstraints(min_length=1, max_length=63)] | None = None
    """A GPU kind (`A100-40GB`) or a node's nvidia.com/gpu.product; unset: any."""

    node_selector: Labels = Field(default={})
    """Labels that the nodes have."""

    max_gpus: NumGpus | None = Field(default=None, alias="maxGPUs")
    """Most GPUs to take from this pool."""

    price_per_gpu_hour: Dollars | None = Field(default=None, alias="pricePerGPUHour")
    """US dollars for one GPU and hour; unset: from the topology or the catalogue."""


class Resources(ApiModel):
    """Limits on what a plan may take."""

    pools: Annotated[tuple[Pool, ...], Keyed(("name",), most=32)] = ()
    """Eligible machines; none: every node with GPUs."""

    budget_per_hour: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """US dollars an hour, for all GPUs and for weights that are sent into other regions."""

    max_gpus: NumGpus | None = Field(default=None, alias="maxGPUs")
    """Most GPUs to take from all pools together."""


Replicas = Annotated[int, Field(ge=1, le=100_000)]


class Rollout(ApiModel):
    """How many copies of the model generate."""

    min_replicas: Replicas = 1
    """Fewest that a plan may have."""

    max_replicas: Replicas | None = None
    """Most that a plan may have; unset: as many as help."""

    replicas: Annotated[int, Field(ge=0, le=100_000)] = 0
    """The target that `kubectl scale` and autoscalers set; 0: the planner decides, and autoscalers,
    which take 0 for switched off, leave it alone. A running job follows at once, and its trainers
    stay where they are if they can."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            condition="!has(self.maxReplicas) || self.maxReplicas >= self.minReplicas",
            message="spec.rollout.maxReplicas must be >= minReplicas ({}), got {}",
            values=("self.minReplicas", "self.maxReplicas"),
            field=".maxReplicas",
        ),
        Rule(
            condition="self.replicas == 0 || self.replicas >= self.minReplicas",
            message="spec.rollout.replicas must be 0 or >= minReplicas ({}), got {}",
            values=("self.minReplicas", "self.replicas"),
            field=".replicas",
        ),
        Rule(
            condition="!has(self.maxReplicas) || self.replicas <= self.maxReplicas",
            message="spec.rollout.replicas must be <= maxReplicas ({}), got {}",
            values=("self.maxReplicas", "self.replicas"),
            field=".replicas",
        ),
    )
