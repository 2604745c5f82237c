"""The smaller messages as plain values.

Trajectories have their own file; translation to and from protobuf is in ``codec``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import TypeAdapter

from hetrl_core.job.identity import UNKNOWN, Value
from hetrl_runtime.wire.trajectory import TrajectoryId


class Outcome(StrEnum):
    """The outcome of a delivered trajectory; also the label of ``hetrl_trajectories_total``."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """Already accepted or consumed: nothing more to do."""

    EXPIRED = "expired"
    """The lease ran out and was given to someone else."""

    STALE = "stale"
    FENCED = "fenced"
    """Asked for in an epoch that is over."""

    MALFORMED = "malformed"
    FAILED = "failed"
    """The engine's own error, taken note of."""

    UNSCORED = "unscored"
    """Without the reference's words, which the trainer needs: its worker has an older plan."""

    UNJUDGED = "unjudged"
    """Without a reward: its group does without it."""

    LEFT_OUT = "left_out"
    """Its prompt cannot be used, and is not tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """The position of training in the data: kept in a checkpoint, given back at the next start.

    The default is the beginning. Opaque to the trainer: every commit returns a new one.
    """

    version: int = 0
    """Policy versions published so far, which are the steps done."""

    next_group: int = 0
    """Groups from here on have not been started."""

    open_groups: tuple[int, ...] = ()
    """Groups started before that, but not consumed."""

    def __post_init__(self) -> None:
        if self.version < 0 or self.next_group < 0:
            raise ValueError(
                f"a resume point needs version and next_group >= 0, "
                f"got {self.version} and {self.next_group}"
            )

    def to_json(self) -> str:
        """Write it for a checkpoint."""
        return _RESUME_POINT.dump_json(self).decode()

    @staticmethod
    def from_json(text: str) -> "ResumePoint":
        """Read what ``to_json`` wrote; ``ValueError`` where the text is something else."""
        return _RESUME_POINT.validate_json(text)


_RESUME_POINT = TypeAdapter(ResumePoint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The coordinator's answer to a process that it knows now."""

    epoch: int
    version: int
    """The version being trained."""

    data: Value = UNKNOWN
    """The data that prompts are from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLease:
    """Trajectories of one prompt, leased to one worker."""

    epoch: int
    group: int
    members: tuple[int, ...]
    question: str
    answer: str
    """For the verifier, which runs in the rollout worker."""

    traceparents: tuple[str, ...] = ()
    """Names of the members' spans; empty where the group is not traced."""

    columns: str = ""
    """All fields of the prompt's record as a JSON object; empty where no reward takes them."""

    messages: str = ""
    """The chat that ends in the question as a JSON array; empty where the question is all of it."""

    def traceparent_of(self, member: int) -> str:
        """Return the name of a member's span; empty where it has none."""
        if len(self.traceparents) != len(self.members):
            return ""
        return self.traceparents[self.members.index(member)]

    @property
    def ids(self) -> tuple[TrajectoryId, ...]:
        """The trajectories asked for."""
        return tuple(TrajectoryId(self.group, member) for member in self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceEndpoint:
    """The address and tasks of an inference worker."""

    address: str
    tasks: tuple[str, ...]
    """Which models: tasks of an iteration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """News for workers. Another epoch than before: abort everything and load the weights again."""

    epoch: int
    version: int
    weights_address: str
    finished: bool = False
    reason: str = ""
    relay_address: str = ""
    """Of the worker that fetches weights for the region of this one; empty: ask the trainer."""

    inference_endpoints: tuple[InferenceEndpoint, ...] = ()
    """Those that were heard of lately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """The status of a process in each heartbeat; counters since it started."""

    version: int = 0
    running: int = 0
    """Trajectories that it works on, or that wait for it."""

    generated_tokens: int = 0
    """Of responses; of an inference worker all that it read."""

    idle_seconds: float = 0.0
    """With no work to do: no lease to generate, no batch to train on, nothing to score."""

    busy_seconds: float = 0.0
    weight_sync_seconds: float = 0.0
    """Of the last synchronisation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """The report of one training step."""

    step_seconds: float = 0.0
    wait_seconds: float = 0.0
    """Of them, waiting for the batch."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    """loss, kl, entropy, clip_fraction, learning_rate, ...: what the report page plots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of a run: a reason in one word, and a message in a sentence."""

    reason: str
    message: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the run did all that it was asked to do."""
        return self.reason == ALL_STEPS_DONE

    @property
    def outcome(self) -> str:
        """``Succeeded`` or ``Failed``."""
        return "Succeeded" if self.succeeded else "Failed"


ALL_STEPS_DONE = "AllStepsDone"
NO_LEARNING_SIGNAL = "NoLearningSignal"
NOT_FINITE = "NotFinite"
ENGINE_MISMATCH = "EngineMismatch"
