"""The simulated pipeline: replicas, stages, trainer, weights, failures, as one frozen value.

Times are in seconds, lengths in tokens. A plan is compiled into this, and so is a pipeline
described by its rates; the simulator knows nothing else.
"""

from dataclasses import dataclass, field

from hetrl_planner.problem.checks import above, at_least, multiple, share
from hetrl_planner.problem.lengths import Lengths

NO_BOUND = 1_000_000_000
"""A staleness that no run reaches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightRoute:
    """The path of new weights to one region's replicas."""

    region: str
    transfer_seconds: float = 0.0
    """From the trainer to the region, with the link to itself; generation goes on meanwhile."""

    load_seconds: float = 0.0
    """Into the GPUs; the replica stops for it."""

    link: str = ""
    """Routes that name the same link share its bandwidth; empty: a link of its own."""

    transferred_gib: float = 0.0
    egress_dollars_per_gib: float = 0.0

    def __post_init__(self) -> None:
        for name in (
            "transfer_seconds",
            "load_seconds",
            "transferred_gib",
            "egress_dollars_per_gib",
        ):
            at_least(f"route {self.region}: {name}", getattr(self, name), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutGroup:
    """Rollout replicas that are alike and in one region."""

    name: str
    region: str
    num_replicas: int
    token_seconds: tuple[float, ...]
    """At ``n - 1``: the time in which each of ``n`` running trajectories gains a token. As
    many entries as a replica has places."""

    prefill_seconds: float = 0.0
    """To read one prompt; it holds up all others on the replica."""

    recompute_seconds_per_token: float = 0.0
    """After new weights, for each token that is in the cache; 0 if the cache is kept."""

    upload_seconds: float = 0.0
    """From a trajectory's end until the coordinator has it."""

    gpus: str = ""
    """Name of the shared GPUs that it runs on; empty: GPUs of its own."""

    dollars_per_hour: float = 0.0
    """Of one replica."""

    def __post_init__(self) -> None:
        at_least(f"group {self.name}: num_replicas", self.num_replicas, 1)
        if not self.token_seconds:
            raise ValueError(f"group {self.name}: places must be >= 1, got 0")
        above(f"group {self.name}: token_seconds", min(self.token_seconds), 0)
        for name in (
            "prefill_seconds",
            "recompute_seconds_per_token",
            "upload_seconds",
            "dollars_per_hour",
        ):
            at_least(f"group {self.name}: {name}", getattr(self, name), 0)

    @property
    def num_places(self) -> int:
        """Trajectories that one replica generates at once."""
        return len(self.token_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceStage:
    """Servers that score each finished trajectory: reference, reward or critic."""

    name: str
    server_seconds: tuple[float, ...]
    """That each server takes for one trajectory."""

    waits_for_batch: bool = False
    """Whether it starts only when a whole batch has been generated."""

    gpus: str = ""
    dollars_per_hour: float = 0.0
    """Of all servers."""

    def __post_init__(self) -> None:
        at_least(f"stage {self.name}: num_servers", self.num_servers, 1)
        at_least(f"stage {self.name}: server_seconds", min(self.server_seconds), 0)
        at_least(f"stage {self.name}: dollars_per_hour", self.dollars_per_hour, 0)

    @property
    def num_servers(self) -> int:
        """Trajectories that are scored at once."""
        return len(self.server_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelTraining:
    """A second training on each batch at the same time, on other GPUs: a critic."""

    name: str
    step_seconds: float
    gpus: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        above(f"training of {self.name}: step_seconds", self.step_seconds, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerSpec:
    """The trainer, which consumes batches and publishes versions."""

    step_seconds: float
    """To train on one batch, all minibatches together."""

    minibatches: int = 1
    streams_minibatches: bool = False
    """Whether a minibatch starts as soon as its part of the batch is there."""

    publish_seconds: float = 0.0
    """After each step, before its weights can travel; the trainer is busy with it."""

    checkpoint_every_steps: int = 1
    gpus: tuple[str, ...] = ()
    """Names of the shared GPUs that it needs all of."""

    beside: tuple[ParallelTraining, ...] = ()
    """A version is done when these are done too."""

    dollars_per_hour: float = 0.0
    """Of all that trains."""

    def __post_init__(self) -> None:
        above("trainer: step_seconds", self.step_seconds, 0)
        at_least("trainer: minibatches", self.minibatches, 1)
        at_least("trainer: publish_seconds", self.publish_seconds, 0)
        at_least("trainer: checkpoint_every_steps", self.checkpoint_every_steps, 1)
        at_least("trainer: dollars_per_hour", self.dollars_per_hour, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedGpus:
    """GPUs of several tasks that take turns.

    Training goes before scoring, and both before generation, which they interrupt.
    """

    name: str
    switch_seconds: float = 0.0
    """Each time that another task gets them: resharding, loading, waking."""

    def __post_init__(self) -> None:
        at_least(f"shared GPUs {self.name}: switch_seconds", self.switch_seconds, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLoss:
    """One replica of a group lost at a time."""

    group: str
    replica: int
    at_seconds: float
    returns_after_seconds: float | None = None
    """None: it never returns."""

    def __post_init__(self) -> None:
        at_least("failures.replicas: replica", self.replica, 0)
        at_least("failures.replicas: at_seconds", self.at_seconds, 0)
        if self.returns_after_seconds is not None:
            at_least("failures.replicas: returns_after_seconds", self.returns_after_seconds, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Scheduled and random failures; the random ones are exponential."""

    replicas: tuple[ReplicaLoss, ...] = ()
    trainer_at_seconds: tuple[float, ...] = ()
    replica_mean_seconds: float | None = None
    """Between failures of one replica; None: it never fails by chance."""

    trainer_mean_seconds: float | None = None
    replica_return_seconds: float = 120.0
    trainer_restart_seconds: float = 300.0

    def __post_init__(self) -> None:
        for at in self.trainer_at_seconds:
            at_least("failures.trainer_at_seconds", at, 0)
        for name in ("replica_mean_seconds", "trainer_mean_seconds"):
            if getattr(self, name) is not None:
                above(f"failures.{name}", getattr(self, name), 0)
        at_least("failures.replica_return_seconds", self.replica_return_seconds, 0)
        at_least("failures.trainer_restart_seconds", self.trainer_restart_seconds, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A disaggregated run to simulate. η = 0 is a synchronous run."""

    batch_size: int
    """Trajectories consumed per version, B."""

    group_size: int
    """Trajectories of one prompt."""

    max_staleness: int | None
    """η; None: no bound, and no admission by it."""

    lengths: Lengths
    rollouts: tuple[RolloutGroup, ...]
    trainer: TrainerSpec
    stages: tuple[InferenceStage, ...] = ()
    routes: tuple[WeightRoute, ...] = ()
    """One per region with anything to wait for; weights reach other regions at once."""

    shared_gpus: tuple[SharedGpus, ...] = ()
    checks_consumption: bool = True
    """The strict check; without it only admission's rate limit holds."""

    leases_groups: bool = False
    """Whether a new group goes to one replica as a whole, which then needs room for all of it;
    else its members go wherever there is a place, one by one."""

    is_interruptible: bool = True
    """Whether running trajectories go on under new weights; else they end first."""

    max_concurrent: int | None = None
    """Trajectories in flight over all replicas; None: as many as they have places."""

    queue_capacity: int | None = None
    """Trajectories that may wait for the trainer; finished ones beyond it keep their places."""

    lease_seconds: float = 60.0
    """From a lost worker's last heartbeat until its work is leased again."""

    renews_leases: bool = True
    """Whether running workers renew leases; else they end after ``lease_seconds``."""

    filtered_share: float = 0.0
    """Share of finished groups that are dropped, as dynamic sampling does."""

    failures: Failures = field(default_factory=Failures)

    def __post_init__(self) -> None:
        at_least("groupSize", self.group_size, 1)
        at_least("globalBatchSize", self.batch_size, 1)
        multiple("globalBatchSize", self.batch_size, of="groupSize", unit=self.group_size)
        if self.max_staleness is not None:
            at_least("maxStaleness", self.max_staleness, 0)
        if self.max_concurrent is not None:
            at_least("concurrency", self.max_concurrent, 1)
        if self.queue_capacity is not None:
            at_least("queueCapacity", self.queue_capacity, 0)
        above("leaseSeconds", self.lease_seconds, 0)
        share("filteredShare", self.filtered_share)
        if self.leases_groups:
            most = max((each.num_places for each in self.rollouts), default=0)
            at_least("places of a replica that is granted whole groups", most, self.group_size)
        self._check_parts()

    def _check_parts(self) -> None:
        if not self.rollouts:
            raise ValueError("a pipeline needs at least one group of rollout replicas, got none")
        if self.trainer.streams_minibatches:
            unit = self.trainer.minibatches * self.group_size
            multiple("globalBatchSize", self.batch_size, of="minibatches x groupSize", unit=unit)
        known = {each.name for each in self.shared_gpus}
        used = {each.gpus for each in self.rollouts} | {each.gpus for each in self.stages}
        used |= set(self.trainer.gpus)
        used |= {name for each in self.trainer.beside for name in each.gpus}
        for name in sorted(used):
            if name and name not in known:
                raise ValueError(f"shared GPUs {name!r} are not among {sorted(known)}")
        sizes = {each.name: each.num_replicas for each in self.rollouts}
        for loss in self.failures.replicas:
            if loss.replica >= sizes.get(loss.group, 0):
                raise ValueError(
                    f"failures.replicas: replica must be one of the {sizes.get(loss.group, 0)} "
                    f"of group {loss.group!r}, got {loss.replica}"
                )

    @property
    def num_places(self) -> int:
        """Places of all replicas together."""
        return sum(each.num_replicas * each.num_places for each in self.rollouts)

    @property
    def dollars_per_hour(self) -> float:
        """Price of everything, egress aside."""
        return (
            self.trainer.dollars_per_hour
            + sum(each.dollars_per_hour for each in self.stages)
            + sum(each.num_replicas * each.dollars_per_hour for each in self.rollouts)
        )
