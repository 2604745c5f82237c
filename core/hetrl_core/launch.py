"""The launch contract: all that a pod reads at its start.

The operator writes it into a ConfigMap, ``hetrl run`` into a file; every process of the
runtime reads it and nothing else. Adding a field with a default keeps old files readable;
anything else raises ``CONTRACT_VERSION``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_core.job.spec import (
    DataSpec,
    Engine,
    JobSpec,
    ModelFiles,
    TracesSpec,
    TrainingSpec,
    WeightTransport,
)
from hetrl_core.plan.plan import Plan
from hetrl_core.plan.pod_sets import PodSet, Rank, inference_tasks, weights_cross_regions
from hetrl_core.plan.training_split import (
    UNDIVIDED,
    TrainingSplit,
    critic_split,
    training_split,
)
from hetrl_core.task import TRAINING_TASKS, Role, Task

CONTRACT_VERSION = 2

TERMINAL_EXIT_CODE = 3
"""A process that ends with it has said why on its last line, and must not be restarted.

A process that is asked to stop before its work is done ends with another code than 0 where that
matters, so that a coordinator's 0 always means that the run is done.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobIdentity:
    """The run that a process belongs to; a coordinator refuses workers of any other."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files of the job's own authority and of this process."""

    ca: str
    certificate: str
    key: str


PROGRAM_DOMAIN = ".hetrl.internal"
"""The domain of the names that certificates have for programs; none of them is in DNS."""


def program_name(program: Role) -> str:
    """Return the name that the certificate of a server of a program has.

    Pods of all roles have names in one DNS domain, so that names of hosts do not tell roles apart.
    """
    return f"{program}{PROGRAM_DOMAIN}"


MAX_PROGRESS_BYTES = 256 * 1024
"""Of a progress report; the operator takes none that is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressTarget:
    """The URL and credentials for progress reports of the coordinator."""

    url: str
    token_file: str
    ca_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The launch contract of the pods of one pod set. A pod adds only its ordinal."""

    job: JobIdentity
    pod_set: str
    role: Role
    ranks: tuple[Rank, ...] = ()
    training_split: TrainingSplit = UNDIVIDED
    """Of actor training, over all pod sets; ``ranks`` says who has which part."""

    critic_split: TrainingSplit | None = None
    """Of a critic on GPUs of its own; None: it is split as its policy is, in the same processes."""

    num_rollout_pods: int = 1
    """Rollout pods planned over all pod sets."""

    inference_tasks: tuple[Task, ...] = ()
    """What inference workers are asked, and trainers need not do themselves."""

    concurrency: int = 0
    """Trajectories that this pod generates at once."""

    kv_cache_bytes: int = 0
    """On each GPU, for what this pod generates; 0: all that its GPUs have left."""

    max_concurrent: int = 1
    """Trajectories that all planned rollout pods together generate at once."""

    listen_host: str = "0.0.0.0"  # noqa: S104  # a pod serves its peers; `hetrl run` narrows this
    coordinator: Address
    weights: Address
    """Where the first training process serves weights."""

    region: str = ""
    """Where these pods are; among those of one region links are fast."""

    weights_cross_regions: bool = False
    """Whether they come over a slow link: compressed then, as changes of those that are here."""

    weight_transport: WeightTransport = WeightTransport.GRPC
    """How they reach rollouts of the trainer's region."""

    inference_port: int = 0
    """Where an inference worker listens; 0: any free port."""

    rendezvous: Address
    """Where the training processes meet to form their process group."""

    metrics_port: int = 9090
    """0: any free port, for tests."""

    more_metrics_ports: tuple[int, ...] = ()
    """Of what else runs in a pod whose GPUs do several roles' work; where they end, any."""

    model: ModelFiles
    vocab_size: int = 0
    """Rows of the model's embedding; 0: unknown."""

    engine: Engine
    algorithm: AlgorithmSpec
    data: DataSpec
    training: TrainingSpec
    state_path: str
    """Directory that this process may write: journal, step records, samples."""

    checkpoint_path: str
    startup_deadline_seconds: float = 600.0
    """How long to wait for peers before giving up with a reason."""

    predicted_step_seconds: float | None = None
    tls: TlsFiles | None = None
    """None only where every process is on one machine's loopback."""

    progress: ProgressTarget | None = None
    traces: TracesSpec | None = None
    """None: no spans."""

    contract_version: int = CONTRACT_VERSION

    def tasks_of(self, ordinal: int) -> frozenset[Task]:
        """Return the tasks that the rank table gives to a pod."""
        return frozenset(rank.task for rank in self.ranks if rank.ordinal == ordinal)

    def trains(self, ordinal: int) -> bool:
        """Return whether a pod trains, whatever else it does."""
        return bool(self.tasks_of(ordinal) & TRAINING_TASKS)


def launch_of(
    plan: Plan, spec: JobSpec, pods: PodSet, sets: Sequence[PodSet], /, **others: Any
) -> Launch:
    """Return the launch contract of a pod set.

    Args:
        plan: the plan that the job follows.
        spec: the job's spec.
        pods: the pod set.
        sets: all pod sets of the plan.
        others: the fields that do not follow from these: those that depend on where the pods run.
    """
    model = spec.model
    return Launch(
        pod_set=pods.name,
        role=pods.role,
        ranks=pods.ranks,
        training_split=training_split(plan),
        critic_split=critic_split(plan),
        num_rollout_pods=sum(each.num_pods for each in sets if each.generates),
        inference_tasks=inference_tasks(sets),
        concurrency=pods.concurrency,
        kv_cache_bytes=pods.kv_cache_bytes,
        region=pods.region,
        weights_cross_regions=weights_cross_regions(pods, sets),
        weight_transport=spec.weight_transport,
        model=ModelFiles(source=model.source, is_path=model.is_path, revision=model.revision),
        vocab_size=model.architecture.vocab_size if model.architecture else 0,
        engine=spec.engine,
        algorithm=spec.algorithm,
        data=spec.data,
        predicted_step_seconds=plan.prediction.step_seconds,
        traces=spec.traces,
        **others,
    )


@cache
def _adapter() -> TypeAdapter[Launch]:
    return TypeAdapter(Launch)


def to_json(launch: Launch) -> str:
    """Write a contract; the same contract always gives the same text."""
    return _adapter().dump_json(launch, indent=1).decode()


def from_json(text: str) -> Launch:
    """Read a contract.

    Raises:
        ValueError: the text is not a contract, or one of another version; the message
            names the fields that are wrong.
    """
    try:
        launch = _adapter().validate_json(text)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in each['loc']) or 'contract'}: {each['msg']}"
            for each in error.errors()
        )
        raise ValueError(f"not a launch contract: {wrong}") from error
    if launch.contract_version != CONTRACT_VERSION:
        raise ValueError(
            f"contract_version must be {CONTRACT_VERSION}, got {launch.contract_version}: "
            "the operator and this image are of different releases"
        )
    return launch
