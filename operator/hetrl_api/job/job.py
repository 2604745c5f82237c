"""HetRLJob: one RL post-training run, as a user writes it. Its parts have files of their own."""

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, StringConstraints

from hetrl_api.job.algorithm import Algorithm
from hetrl_api.job.data import Data
from hetrl_api.job.lifecycle import FailurePolicy, Scheduling
from hetrl_api.job.model import Model
from hetrl_api.job.planning import Planning
from hetrl_api.job.resources import Resources, Rollout
from hetrl_api.job.runtime import Runtime
from hetrl_api.job.status import JobStatus
from hetrl_api.job.training import Storage, Training
from hetrl_api.validation.rules import ApiModel, Rule, section

API_VERSION = "hetrl.dev/v1alpha1"
MANAGER = "hetrl.dev/operator"

Seconds = Annotated[int, Field(ge=1, le=315_360_000)]


class Metadata(ApiModel):
    """Name and place of an object; other metadata is the API server's business."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None


def _never_changes(field: str) -> Rule:
    return Rule(
        condition=f"self.{field} == oldSelf.{field}",
        message=f"spec.{field} cannot change: delete the job and make another",
        field=f".{field}",
    )


class HetRLJobSpec(ApiModel):
    """What to train, on what, and how."""

    model: Model
    """The policy that is trained."""

    algorithm: Algorithm = section(Algorithm)
    """How it learns."""

    data: Data
    """Prompts and rewards."""

    storage: Storage = section(Storage)
    """What outlives the pods."""

    training: Training
    """The optimizer's run."""

    resources: Resources = section(Resources)
    """Limits on what a plan may take."""

    rollout: Rollout = section(Rollout)
    """How many copies of the model generate."""

    planning: Planning = section(Planning)
    """How the job is planned."""

    runtime: Runtime = section(Runtime)
    """What runs in the pods."""

    failure_policy: FailurePolicy = section(FailurePolicy)
    """When failures end the job."""

    scheduling: Scheduling = section(Scheduling)
    """Who admits the job's pods."""

    suspend: bool = False
    """Stop the pods after a checkpoint; false again continues from it."""

    startup_deadline_seconds: Annotated[int, Field(ge=1, le=86_400)] = 900
    """From the pods' creation to the first step's start, or the job fails."""

    unschedulable_deadline_seconds: Seconds | None = None
    """Longest wait for GPUs before the job fails: without a plan, or with pods that no node takes.
    Unset: without a plan for ever, and pods as long as startupDeadlineSeconds."""

    progress_deadline_seconds: Seconds = 1800
    """Longest time from one step to the next before condition Progressing turns False. Nothing else
    follows."""

    active_deadline_seconds: Seconds | None = None
    """Longest run since the start or the last resume; unset: no limit."""

    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=315_360_000)] | None = None
    """Delete the job this long after it finished; unset: keep it."""

    release_deadline_seconds: Annotated[int, Field(ge=1, le=86_400)] = 600
    """Once the job is deleted, the longest wait for its pods to write a checkpoint and stop; then
    it is let go whatever is left of them."""

    managed_by: Annotated[str, StringConstraints(min_length=1, max_length=63)] = MANAGER
    """The controller of this job. The operator leaves one with another name than
    hetrl.dev/operator alone, as where kueue.x-k8s.io/multikueue runs it in another cluster."""

    rules: ClassVar[tuple[Rule, ...]] = (
        _never_changes("model"),
        _never_changes("algorithm"),
        _never_changes("data"),
        Rule(
            condition="!has(oldSelf.storage) || self.storage == oldSelf.storage || self.suspend",
            message="spec.storage can change only while spec.suspend is true",
            field=".storage",
        ),
        Rule(
            condition="self.training.seed == oldSelf.training.seed",
            message="spec.training.seed cannot change: delete the job and make another",
            field=".training.seed",
        ),
        Rule(
            condition=(
                "!has(self.algorithm.critic) || "
                "self.algorithm.critic.warmUpSteps < self.training.steps"
            ),
            message=(
                "spec.algorithm.critic.warmUpSteps must be < spec.training.steps ({}), got {}"
            ),
            values=("self.training.steps", "self.algorithm.critic.warmUpSteps"),
            field=".algorithm.critic.warmUpSteps",
        ),
        _never_changes("managedBy"),
        Rule(
            condition="self.managedBy.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?/[-._a-zA-Z0-9]+$')",
            message="spec.managedBy must be a domain and a name, as hetrl.dev/operator, got {}",
            values=("self.managedBy",),
            field=".managedBy",
        ),
    )


class HetRLJob(ApiModel):
    """One RL post-training run, planned over the GPUs that there are."""

    api_version: Literal["hetrl.dev/v1alpha1"]
    kind: Literal["HetRLJob"]
    metadata: Metadata
    spec: HetRLJobSpec
    """What to train, on what, and how."""

    status: JobStatus | None = None
    """What the operator saw last."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            condition="self.metadata.name.size() <= 40",
            message=(
                "metadata.name must have at most 40 characters (names of pods and labels are "
                "longer), got {}"
            ),
            values=("self.metadata.name.size()",),
        ),
        Rule(
            condition="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            message=(
                "metadata.name must match ^[a-z]([-a-z0-9]*[a-z0-9])?$: Services are named after it"
            ),
        ),
    )
