"""A pipeline described by its rates, as `hetrl simulate -p` reads it: no plan, no fleet.

A plain document without a kind: it is never stored in a cluster.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from hetrl_api.validation.rules import ApiModel, Rule, exactly_one, section

Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
Count = Annotated[int, Field(ge=1, le=10_000_000)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
PositiveSeconds = Annotated[float, Field(gt=0, le=1e9)]


class UniformTokens(ApiModel):
    """Every length of a range, equally likely."""

    min: Tokens
    max: Tokens

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            condition="self.min <= self.max",
            message="responseTokens.uniform.max must be >= min ({}), got {}",
            values=("self.min", "self.max"),
        ),
    )


class LogNormalTokens(ApiModel):
    """A long tail, cut at max. With neither p95 nor cv, one response in a hundred is cut."""

    mean: Annotated[float, Field(gt=0, le=1e7)]
    """After the cut."""

    max: Tokens
    p95: Annotated[float, Field(gt=0, le=1e7)] | None = None
    cv: Annotated[float, Field(ge=0, le=100)] | None = None
    """Standard deviation over mean, before the cut."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            condition="!(has(self.p95) && has(self.cv))",
            message="responseTokens.lognormal must set p95 or cv, not both",
        ),
    )


class ResponseTokens(ApiModel):
    """Exactly one distribution of response lengths."""

    constant: Tokens | None = None
    uniform: UniformTokens | None = None
    lognormal: LogNormalTokens | None = None
    empirical: Annotated[tuple[Tokens, ...], Field(min_length=1, max_length=100_000)] | None = None

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("responseTokens", ("constant", "uniform", "lognormal", "empirical"), of="self"),
    )


class LostReplica(ApiModel):
    """One replica lost at a time."""

    replica: Annotated[int, Field(ge=0)]
    at_seconds: Seconds
    returns_after_seconds: Seconds | None = None
    """Unset: never."""


class PipelineFailures(ApiModel):
    """What is lost, at given times or by chance."""

    replicas: tuple[LostReplica, ...] = ()
    trainer_at_seconds: tuple[Seconds, ...] = ()
    replica_mean_seconds: PositiveSeconds | None = None
    """Mean time between failures of one replica; unset: none by chance."""

    trainer_mean_seconds: PositiveSeconds | None = None
    replica_return_seconds: Seconds = 120.0
    trainer_restart_seconds: Seconds = 300.0


class RatePipeline(ApiModel):
    """Concurrency, batch, queue, rates, lengths and the bound of a disaggregated run."""

    concurrency: Count
    """Trajectories that all replicas generate at once."""

    replicas: Annotated[int, Field(ge=1, le=100_000)] = 1
    """That share the concurrency evenly."""

    global_batch_size: Count
    """Trajectories consumed per version."""

    group_size: Count = 1
    """Trajectories of one prompt."""

    max_staleness: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """The bound; unset: none."""

    queue_capacity: Annotated[int, Field(ge=0)] | None = None
    """Trajectories that may wait for the trainer; unset: as many as the bound lets come."""

    rate_ratio: Annotated[float, Field(gt=0, le=1e6)]
    """Rate of generation with all places running, over the trainer's rate."""

    train_step_seconds: PositiveSeconds = 1.0
    """One batch."""

    load_sensitivity: Annotated[float, Field(ge=0, le=1)] = 0.0
    """0: places do not feel each other; 1: a replica's total rate is fixed."""

    response_tokens: ResponseTokens
    weight_sync_seconds: Seconds = 0.0
    """That a replica stops for each version."""

    minibatches: Count = 1
    streams_minibatches: bool = False
    """Whether a minibatch is trained on as soon as its part of the batch is there."""

    checkpoint_every_steps: Count = 1
    strict_check: bool = True
    """Whether each trajectory's staleness is checked when it is consumed."""

    interruptible: bool = True
    """Whether running trajectories go on under new weights; else they end first."""

    lend_groups: bool = False
    """Whether a prompt's trajectories all go to one replica; else wherever there is a place."""

    filtered_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of finished groups that are thrown away."""

    lease_seconds: PositiveSeconds = 60.0
    renews_leases: bool = True
    failures: PipelineFailures = section(PipelineFailures)
    steps: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Versions to simulate; --steps overrides it."""

    warmup_steps: Annotated[int, Field(ge=0)] | None = None
    """First versions that are not measured; unset: the bound and two more."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            condition="self.globalBatchSize % self.groupSize == 0",
            message="globalBatchSize ({}) must be a multiple of groupSize ({})",
            values=("self.globalBatchSize", "self.groupSize"),
        ),
        Rule(
            condition="self.concurrency % self.replicas == 0",
            message="concurrency ({}) must be a multiple of replicas ({})",
            values=("self.concurrency", "self.replicas"),
        ),
    )
