"""HetRLPlan: a plan as an object, compact enough that 10,240 GPUs stay far from etcd's limit."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from hetrl_api.job.job import Metadata
from hetrl_api.plan.ranges import MAX_CHARACTERS
from hetrl_api.validation.rules import ApiModel, Rule
from hetrl_core.job.spec import Strategy
from hetrl_core.plan.plan import Recompute, Sharding
from hetrl_core.task import Task

Text = Annotated[str, StringConstraints(max_length=1024)]
Bytes = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(ge=0)]


class MachineRun(ApiModel):
    """Consecutive machines in rank order."""

    machines: Annotated[str, StringConstraints(min_length=1, max_length=MAX_CHARACTERS)]
    """Names, as ranges: `a100-[000-119]`."""

    times: Annotated[int, Field(ge=1, le=1024)] = 1
    """How often each comes in a row: its replicas."""


class StageSite(ApiModel):
    """Where a pipeline stage is."""

    gpu_kind: Text
    """Kind of GPU."""

    region: Text
    """Where."""


class GroupTraining(ApiModel):
    """How training trades time and traffic for memory."""

    recompute: Recompute
    """What backward computes a second time."""

    sharding: Sharding
    """What replicas divide among themselves."""


class Placement(ApiModel):
    """Consecutive replicas that take the same number of GPUs from each of their machines."""

    gpus: Annotated[tuple[Annotated[int, Field(ge=1, le=64)], ...], Field(max_length=256)]
    """GPUs of each share of a replica, in rank order."""

    first_gpus: Annotated[tuple[Annotated[int, Field(ge=0, le=63)], ...], Field(max_length=256)] = (
        Field(default=(), alias="firstGPUs")
    )
    """The first GPU of each share on its machine, where tasks share GPUs; else empty."""

    work_share: Annotated[float, Field(ge=0, le=1)]
    """Share of the task's trajectories that each replica gets."""

    runs: Annotated[tuple[MachineRun, ...], Field(max_length=10_240)]
    """A machine for each share of each replica."""


class GroupMemory(ApiModel):
    """Bytes on the fullest GPU of a replica."""

    weights_bytes: Bytes
    """Parameters."""

    gradients_bytes: Bytes = 0
    """Gradients."""

    optimizer_bytes: Bytes = 0
    """Optimizer state."""

    activations_bytes: Bytes = 0
    """Activations."""

    kv_cache_bytes: Bytes = 0
    """Keys and values."""

    overhead_bytes: Bytes = 0
    """All else."""


class PlannedGroup(ApiModel):
    """Replicas that are alike: same tasks, GPU kind, region and split."""

    tasks: Annotated[tuple[Task, ...], Field(min_length=1, max_length=6)]
    """Tasks that share the GPUs."""

    gpu_kind: Text
    """Kind of GPU."""

    region: Text
    """Where."""

    tensor: Annotated[int, Field(ge=1, le=64)]
    """Tensor parallelism."""

    stage_layers: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1, max_length=256)
    ]
    """Layers of each pipeline stage."""

    stage_sites: Annotated[tuple[StageSite, ...], Field(max_length=256)] = ()
    """Where each stage is, if not all are on the group's kind and in its region."""

    training: GroupTraining | None = None
    """How it trains, if it does."""

    replicas: Annotated[int, Field(ge=1, le=100_000)]
    """How many."""

    placements: Annotated[tuple[Placement, ...], Field(max_length=1024)] = ()
    """Which machines; none in a plan that is not bound to machines yet."""

    concurrency: Annotated[int, Field(ge=0)] = 0
    """Trajectories that a replica generates at once."""

    samples_per_second: Rate = 0.0
    """Predicted rate of one replica."""

    memory: GroupMemory
    """Predicted use."""


class PlanPrediction(ApiModel):
    """What the cost model expects, per policy version."""

    step_seconds: Rate
    """One version."""

    generation_seconds: Rate
    """Generating its batch."""

    training_seconds: Rate
    """Training on it."""

    weight_sync_seconds: Rate
    """Moving the weights."""

    samples_per_second: Rate
    """Trajectories consumed."""

    dollars_per_hour: Rate
    """Price of the GPUs."""

    mean_staleness: Rate
    """Versions that samples lag behind."""

    bottleneck: Text
    """What binds."""


class RejectedAlternative(ApiModel):
    """An alternative that lost."""

    summary: Text
    """What it was."""

    reason: Text
    """Why it lost."""


class PlanSpec(ApiModel):
    """The decision."""

    strategy: Strategy
    """The search that found it."""

    seed: int = 1
    """Of the search."""

    ended_by: Literal["work", "time"] = "work"
    """What ended the search; only work is repeatable."""

    gap_ratio: Rate | None = None
    """Distance from the best bound known, as a share of it."""

    groups: Annotated[tuple[PlannedGroup, ...], Field(min_length=1, max_length=256)]
    """Who does what."""

    prediction: PlanPrediction
    """What to expect."""

    rejected: Annotated[tuple[RejectedAlternative, ...], Field(max_length=20)] = ()
    """Alternatives that lost, and why."""

    num_gpus: Annotated[int, Field(ge=1)] = Field(alias="numGPUs")
    """GPUs of all groups together."""


class HetRLPlan(ApiModel):
    """Which machines do which tasks of a job, and what to expect of it."""

    api_version: Literal["hetrl.dev/v1alpha1"]
    kind: Literal["HetRLPlan"]
    metadata: Metadata
    spec: PlanSpec
    """The decision."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            condition="self.spec == oldSelf.spec",
            message="spec cannot change: a new decision is a new plan",
        ),
    )
