"""A published number as a value: what was run or sent, and what was measured of it."""

from dataclasses import dataclass

from hetrl_core.fleet.snapshot import GpuKind
from hetrl_core.plan.plan import Recompute, Sharding, TrainingMode
from hetrl_planner.problem.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Replicas that are cut alike, on so many GPUs."""

    num_gpus: int
    tensor: int = 1
    stages: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run as its authors split it, on one kind of GPU in one region."""

    kind: GpuKind
    link_bytes_per_second: float
    """Out of one machine."""

    work: Workload
    generation: Split
    training: Split
    recompute: Recompute
    shares_gpus: bool = False
    """Whether tasks take turns on all GPUs; the trainer's state is then in host memory while
    the engines work, as these frameworks do it."""

    gpus_per_machine: int = 8
    max_num_seqs: int = 1024
    """Sequences that an engine takes at once: the default of vLLM and verl on such GPUs."""

    length: "InferredLength | None" = None
    """From what the mean response is inferred where it was not published."""

    has_proximal_pass: bool = True
    """Whether the trainer computes log-probabilities before it trains."""

    streamed_parts: int = 1
    """Parts of a batch that are trained on as soon as each is there."""

    ahead_share: float | None = None
    """Of a batch, that may wait for the trainer; None: what the staleness bound allows."""

    is_interruptible: bool = True
    recomputes_cache: bool = False
    """Whether new weights make an engine read again what it has written."""

    trainer_keeps_up: bool = False
    """Whether only generation was measured, and nothing held it back."""

    @property
    def num_gpus(self) -> int:
        """All of them."""
        if self.shares_gpus:
            return self.training.num_gpus
        return self.generation.num_gpus + self.training.num_gpus

    @property
    def mode(self) -> TrainingMode:
        """How it trains: with a divided optimizer, all of them."""
        return TrainingMode(recompute=self.recompute, sharding=Sharding.OPTIMIZER)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredLength:
    """The mean response with which a run's training side takes the published time."""

    run: Run
    training_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """What a synchronous step was published to consist of, in seconds."""

    generation: float
    training: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Seconds of a step."""

    run: Run
    is_played: bool = False
    """Whether lengths and the order of things matter, so that only the simulator can say."""

    phases: Phases | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How many times longer a step of one run takes than of another; both are played."""

    slower: Run
    faster: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Seconds of a broadcast of weights between machines."""

    size_bytes: float
    link_bytes_per_second: float


Measured = StepTime | Gain | Transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published number."""

    source: str
    case: str
    published: float
    measured: Measured

    @property
    def unit(self) -> str:
        """Of the number."""
        return "x" if isinstance(self.measured, Gain) else "s"
