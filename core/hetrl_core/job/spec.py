"""The specification of a job, parsed and validated once: the values behind a HetRLJob.

The pydantic models of ``hetrl_api`` make these and define the spelling in YAML; planner, operator
and command line read them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_core.job.architecture import ModelArchitecture
from hetrl_core.job.identity import Aspect
from hetrl_core.job.reward import (
    LengthPenalty,
    MathReward,
    PythonReward,
    RegexReward,
    Reward,
    RewardPart,
    require_settings,
)
from hetrl_core.limits import above_zero, at_least
from hetrl_core.model.context import Lengths


class Engine(StrEnum):
    """What generates in a rollout worker."""

    VLLM = "vllm"
    TRANSFORMERS = "transformers"


class WeightTransport(StrEnum):
    """How weights reach rollouts of the trainer's region; over regions it always is gRPC."""

    GRPC = "Grpc"
    """Each fetches them, over mutual TLS."""

    NCCL = "Nccl"
    """The trainer broadcasts them: by NCCL between GPUs, by gloo otherwise, in the clear."""


class Strategy(StrEnum):
    """Which search makes the plan."""

    AUTO = "Auto"
    AREAL_HEX = "ArealHex"
    HETRL = "HetRL"
    ILP = "ILP"
    HOMOGENEOUS = "Homogeneous"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The files of a model: a folder, or a hub id and revision."""

    source: str
    """A local path, or a hub id ``owner/name``; ``is_path`` tells which."""

    is_path: bool = True
    revision: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec(ModelFiles):
    """The policy's files and, for planning, what the model looks like."""

    architecture: ModelArchitecture | None = None
    """None where neither the job, nor a ``config.json``, nor the table of known models has them."""


class Tool(StrEnum):
    """What a policy may call while it answers."""

    CALCULATOR = "calculator"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubDataset:
    """A data set of the Hugging Face hub."""

    name: str
    """``owner/name``."""

    revision: str = ""
    """Branch, tag or commit; empty: the main branch."""

    def __str__(self) -> str:
        return f"{self.name} at revision {self.revision}" if self.revision else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """Objects that are reached by URI."""

    url: str
    """Scheme and bucket, or a web server: ``s3://bucket``, ``https://host``."""

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSet:
    """One of a job's data sets, and its share of the prompts."""

    name: str
    """Empty where the job has no other."""

    prompts: str
    """Path of a file, or a pattern for several; inside the data set or the store, where there is
    one."""

    dataset: HubDataset | ObjectStore | None = None
    """What the files are fetched from; None: they are here."""

    question_field: str = "question"
    answer_field: str = "answer"
    weight: float = 1.0
    """Its share of the prompts, beside the weights of the others."""

    def __str__(self) -> str:
        return f"{self.dataset}/{self.prompts}" if self.dataset else self.prompts


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """Prompts, how answers are scored, and how long both may be."""

    prompts: str
    """As in ``PromptSet``; empty with ``sets``."""

    dataset: HubDataset | ObjectStore | None = None
    sets: tuple[PromptSet, ...] = ()
    """Several data sets, in the place of ``prompts``."""

    question_field: str = "question"
    answer_field: str = "answer"
    system_prompt: str = ""
    """The first message of every chat; empty: that of the data, if any."""

    prompt_template: str = ""
    """Text with ``{question}`` in place of the last message; empty: the message as it is."""

    chat_template_arguments: tuple[tuple[str, bool | int | float | str], ...] = ()
    """Names and values that the model's chat template gets."""

    reward: str = Reward.MATH
    math: MathReward | None = None
    regex: RegexReward | None = None
    python: PythonReward | None = None
    rewards: tuple[RewardPart, ...] = ()
    """Several rewards, in the place of ``reward`` and its settings; none: that one."""

    source_field: str = "data_source"
    """The field of a row that ``RewardPart.sources`` names values of."""

    model: ModelFiles | None = None
    """A reward model: for sequence classification, with one output."""

    length_penalty: LengthPenalty | None = None
    tools: tuple[Tool, ...] = ()
    max_prompt_tokens: int = 512
    max_response_tokens: int = 1024
    """Of all turns together, what tools write included."""

    mean_response_tokens: int | None = None
    """What planning expects; None: half of ``max_response_tokens``."""

    def __post_init__(self) -> None:
        at_least("data.maxPromptTokens", self.max_prompt_tokens, 1)
        at_least("data.maxResponseTokens", self.max_response_tokens, 1)
        at_least("data.meanResponseTokens", self.mean_response_tokens, 1)
        self._require_rewards()
        if bool(self.prompts) and bool(self.sets):
            raise ValueError("data.sets takes the place of data.prompts: set only one of them")
        names = [each.name for each in self.sets]
        if len(set(names)) < len(names):
            raise ValueError(f"data.sets must not have a name twice, got {', '.join(names)}")
        for each in self.sets:
            above_zero(f"data.sets[{each.name}].weight", each.weight)
        if len(set(self.tools)) < len(self.tools):
            raise ValueError(f"data.tools must not name a tool twice, got {', '.join(self.tools)}")
        penalty = self.length_penalty
        if penalty and penalty.buffer_tokens > self.max_response_tokens:
            raise ValueError(
                f"data.lengthPenalty.bufferTokens must be <= maxResponseTokens "
                f"({self.max_response_tokens}), got {penalty.buffer_tokens}"
            )

    def _require_rewards(self) -> None:
        settings = {Reward.REGEX: self.regex, Reward.PYTHON: self.python}
        require_settings("data", self.reward, settings, self.math)
        if self.rewards and (self.reward != Reward.MATH or self.math):
            raise ValueError("data.rewards takes the place of data.reward: set only one of them")
        names = [each.name for each in self.rewards]
        if len(set(names)) < len(names):
            raise ValueError(f"data.rewards must not have a name twice, got {', '.join(names)}")
        has_model = any(each.reward == Reward.MODEL for each in self.parts)
        if has_model is not (self.model is not None):
            rewards = ", ".join(each.reward for each in self.parts)
            raise ValueError(
                f"data.model must be set if and only if a reward is model, got {rewards}"
            )

    @property
    def prompt_sets(self) -> tuple[PromptSet, ...]:
        """The data sets: those named, or the only one."""
        return self.sets or (
            PromptSet(
                name="",
                prompts=self.prompts,
                dataset=self.dataset,
                question_field=self.question_field,
                answer_field=self.answer_field,
            ),
        )

    def found_at(self, places: Sequence[str]) -> "DataSpec":
        """Return the same data with the files of each set on this machine."""
        if not self.sets:
            (place,) = places
            return replace(self, prompts=place, dataset=None)
        pairs = zip(self.sets, places, strict=True)
        sets = tuple(replace(each, prompts=place, dataset=None) for each, place in pairs)
        return replace(self, sets=sets)

    @property
    def parts(self) -> tuple[RewardPart, ...]:
        """The rewards that are added up: those named, or the only one."""
        return self.rewards or (
            RewardPart(
                name=str(self.reward),
                reward=self.reward,
                math=self.math,
                regex=self.regex,
                python=self.python,
            ),
        )

    @property
    def reward_takes_columns(self) -> bool:
        """Whether a reward may ask for columns of the data, or depends on a row's source."""
        return any(each.takes_columns or each.sources for each in self.parts)

    @property
    def lengths(self) -> Lengths:
        """Limits that a model's context must have room for."""
        return Lengths(self.max_prompt_tokens, self.max_response_tokens)

    @property
    def expected_response_tokens(self) -> int:
        """Tokens that an average response is planned to have."""
        return self.mean_response_tokens or max(1, self.max_response_tokens // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSpec:
    """The optimizer's run."""

    steps: int
    """Policy versions to publish."""

    learning_rate: float = 1e-6
    checkpoint_every_steps: int = 20
    checkpoint_path: str = ""
    """Directory for checkpoints; empty: the run's own state directory."""

    keep_last_checkpoints: int = 3
    allowed_changes: tuple[Aspect, ...] = ()
    """What may differ from what checkpoints and journal are of."""

    tensorboard_path: str = ""
    """Directory in which the coordinator writes event files; empty: none."""

    seed: int = 1
    shuffle_rewards: bool = False
    """Deal each batch's rewards out at random: the control that a learning curve needs."""

    def __post_init__(self) -> None:
        at_least("training.steps", self.steps, 1)
        at_least("training.checkpointEverySteps", self.checkpoint_every_steps, 1)
        at_least("training.learningRate", self.learning_rate, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """Machines that the job may use, chosen by GPU product or by labels."""

    name: str
    gpu_product: str = ""
    """A GPU kind's name or a node's ``nvidia.com/gpu.product``; empty: any."""

    node_selector: tuple[tuple[str, str], ...] = ()
    max_gpus: int | None = None
    dollars_per_gpu_hour: float | None = None

    def __post_init__(self) -> None:
        at_least(f"resources.pools {self.name}: maxGPUs", self.max_gpus, 1)
        at_least(f"resources.pools {self.name}: pricePerGPUHour", self.dollars_per_gpu_hour, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcesSpec:
    """Limits on what a plan may take. No pools: every GPU machine is eligible."""

    pools: tuple[PoolSpec, ...] = ()
    budget_dollars_per_hour: float | None = None
    max_gpus: int | None = None

    def __post_init__(self) -> None:
        above_zero("resources.budgetPerHour", self.budget_dollars_per_hour)
        at_least("resources.maxGPUs", self.max_gpus, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSpec:
    """Rollout replicas *of the plan*. ``replicas`` unset: the planner decides."""

    min_replicas: int = 1
    max_replicas: int | None = None
    replicas: int | None = None

    def __post_init__(self) -> None:
        at_least("rollout.minReplicas", self.min_replicas, 1)
        at_least("rollout.replicas", self.replicas, 1)
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            raise ValueError(
                f"rollout.maxReplicas must be >= minReplicas ({self.min_replicas}), "
                f"got {self.max_replicas}"
            )


@dataclass(frozen=True, slots=True)
class MaximiseThroughput:
    """As many samples a second as the limits allow."""


@dataclass(frozen=True, slots=True)
class MinimiseCost:
    """The cheapest fleet share that reaches a rate."""

    required_samples_per_second: float

    def __post_init__(self) -> None:
        above_zero(
            "planning.objective.cost.requiredSamplesPerSecond", self.required_samples_per_second
        )


@dataclass(frozen=True, slots=True)
class MeetDeadline:
    """The cheapest fleet share that finishes all steps in time."""

    seconds_left: float

    def __post_init__(self) -> None:
        above_zero("planning.objective.deadline: seconds left", self.seconds_left)


Objective = MaximiseThroughput | MinimiseCost | MeetDeadline


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningSpec:
    """How to search. ``seed`` makes a search that ended by work repeatable."""

    objective: Objective = field(default_factory=MaximiseThroughput)
    strategy: Strategy = Strategy.AUTO
    time_budget_seconds: float = 10.0
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TracesSpec:
    """Where spans go, and how many trajectories have some."""

    endpoint: str
    """Base address of a collector that takes OTLP over HTTP."""

    sample_ratio: float = 0.01
    """Share of prompts whose trajectories are traced, all of a group or none."""

    def __post_init__(self) -> None:
        if not 0 <= self.sample_ratio <= 1:
            raise ValueError(
                "runtime.telemetry.traces.sampleRatio must be between 0 and 1, "
                f"got {self.sample_ratio}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """Everything of a HetRLJob that planning and running read."""

    name: str
    namespace: str = "default"
    model: ModelSpec
    algorithm: AlgorithmSpec
    data: DataSpec
    training: TrainingSpec
    resources: ResourcesSpec = field(default_factory=ResourcesSpec)
    rollout: RolloutSpec = field(default_factory=RolloutSpec)
    planning: PlanningSpec = field(default_factory=PlanningSpec)
    engine: Engine = Engine.VLLM
    weight_transport: WeightTransport = WeightTransport.GRPC
    traces: TracesSpec | None = None


# Not-a-number passes no comparison, so limits are written to fail on it.
