"""From a HetRLJob to the core's ``JobSpec``: defaults that depend on each other, and paths.

A claim's path depends on where the job runs: pods mount each claim below ``CLAIMS_PATH``,
`hetrl run` maps it to a folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hetrl_api.conversion import from_core, to_core
from hetrl_api.job.algorithm import Algorithm
from hetrl_api.job.data import Data, PromptSet
from hetrl_api.job.job import HetRLJob
from hetrl_api.job.model import Architecture, Model
from hetrl_api.job.planning import Objective, Planning
from hetrl_api.job.resources import Pool, Resources, Rollout
from hetrl_api.job.rewards import NamedReward, Python, RewardModel
from hetrl_api.job.source import Claim, Source
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_core.job import algorithm
from hetrl_core.job import spec as core
from hetrl_core.job.architecture import ModelArchitecture
from hetrl_core.job.layout import LAYOUTS, Layout
from hetrl_core.job.reward import PythonReward, RewardPart
from hetrl_core.units import MIB

CLAIMS_PATH = "/hetrl/claims"
"""Where pods mount the claims of sources, each in a folder of its name."""

CHECKPOINTS_PATH = "/hetrl/checkpoints"
"""Where pods mount the claim of checkpoints."""

DEFAULT_MAX_STALENESS = {algorithm.Mode.ASYNC: 2, algorithm.Mode.SYNC: 0}


def to_spec(
    job: HetRLJob,
    *,
    base_path: Path,
    claims: Mapping[str, Path] | None = None,
    now: datetime,
) -> core.JobSpec:
    """Return what planning and running need of a job.

    Args:
        job: a valid job.
        base_path: folder that relative paths of the job are in.
        claims: folders that stand for claims by name; None: the paths in the pods.
        now: the moment from which a deadline counts.

    Raises:
        InvalidObjectError: a claim has no folder, or the deadline has passed.
    """
    places = _Places(base_path=base_path, claims=claims)
    spec, telemetry = job.spec, job.spec.runtime.telemetry
    traces = telemetry and telemetry.traces
    return to_core(
        core.JobSpec,
        spec,
        name=job.metadata.name,
        namespace=job.metadata.namespace or "default",
        model=_model(spec.model, places),
        algorithm=_algorithm(spec.algorithm),
        data=_data(spec.data, places),
        training=_training(job, places),
        resources=_resources(spec.resources),
        rollout=_rollout(spec.rollout),
        planning=_planning(spec.planning, now=now),
        engine=spec.runtime.engine,
        weight_transport=spec.runtime.transport.weights,
        traces=to_core(core.TracesSpec, traces) if traces else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Where relative paths and claims are on the machine that runs the job."""

    base_path: Path
    claims: Mapping[str, Path] | None

    def hub_or_path(self, source: Source, *, field: str) -> str:
        return source.hub or self.path(source, field=field)

    def path(self, source: Source, *, field: str) -> str:
        if source.claim:
            return str(self._folder(source.claim, field=field) / (source.claim.path or ""))
        return str(self.base_path / (source.path or ""))

    def _folder(self, claim: Claim, *, field: str) -> Path:
        if self.claims is None:
            return Path(CLAIMS_PATH) / claim.name
        if claim.name not in self.claims:
            raise InvalidObjectError(
                [
                    f"{field}.claim: no folder stands for claim {claim.name} here: "
                    f"give one with --claim {claim.name}=FOLDER"
                ]
            )
        return self.claims[claim.name]


def _model(model: Model, places: _Places) -> core.ModelSpec:
    return to_core(
        core.ModelSpec,
        model,
        source=places.hub_or_path(model.source, field="spec.model.source"),
        is_path=model.source.hub is None,
        architecture=architecture_of(model.architecture) if model.architecture else None,
    )


def architecture_of(given: Architecture) -> ModelArchitecture:
    """Return a model's dimensions as the core's type."""
    return to_core(
        ModelArchitecture,
        given,
        num_layers=given.layers,
        num_query_heads=given.query_heads,
        num_kv_heads=given.kv_heads,
    )


def from_architecture(found: ModelArchitecture) -> Architecture:
    """Return a model's dimensions as the API states them."""
    return from_core(
        Architecture,
        found,
        layers=found.num_layers,
        query_heads=found.num_query_heads,
        kv_heads=found.num_kv_heads,
    )


def _algorithm(given: Algorithm) -> algorithm.AlgorithmSpec:
    bound = given.max_staleness
    return to_core(
        algorithm.AlgorithmSpec,
        given,
        max_staleness=DEFAULT_MAX_STALENESS[given.mode] if bound is None else bound,
    )


def _data(given: Data, places: _Places) -> core.DataSpec:
    question, answer = _fields(given, given.format)
    prompts, dataset = ("", None)
    if given.prompts:
        prompts, dataset = _prompts(given, given.prompts, places, field="spec.data")
    return to_core(
        core.DataSpec,
        given,
        prompts=prompts,
        dataset=dataset,
        sets=tuple(_set(each, given, places) for each in given.sets),
        question_field=question,
        answer_field=answer,
        chat_template_arguments=tuple(sorted(given.chat_template_arguments.items())),
        python=_python(given.python, places, field="spec.data") if given.python else None,
        rewards=tuple(_named_reward(each, places) for each in given.rewards),
        model=_reward_model(given.model, places) if given.model else None,
    )


def _set(each: PromptSet, data: Data, places: _Places) -> core.PromptSet:
    """Return one of several data sets; what it does not name is as ``spec.data`` has it."""
    prompts, dataset = _prompts(each, each.prompts, places, field=f"spec.data.sets[{each.name}]")
    layout = each.format or data.format
    question, answer = _fields(data, layout)
    return to_core(
        core.PromptSet,
        each,
        prompts=prompts,
        dataset=dataset,
        question_field=each.question_field or question,
        answer_field=each.answer_field or answer,
    )


def _fields(given: Data, layout: Layout | None) -> tuple[str, str]:
    """Return the fields of question and answer: those that are named, else those of the layout."""
    named = (given.question_field, given.answer_field)
    if layout is None:
        return named
    defaults = (
        Data.model_fields["question_field"].default,
        Data.model_fields["answer_field"].default,
    )
    question, answer = (
        of_layout if name == default else name
        for name, default, of_layout in zip(named, defaults, LAYOUTS[layout], strict=True)
    )
    return question, answer


def _prompts(
    given: Data | PromptSet, source: Source, places: _Places, *, field: str
) -> tuple[str, core.HubDataset | core.ObjectStore | None]:
    """Return a path or pattern, and what that is inside of where it is not on this machine."""
    if source.hub:
        return given.files or "", core.HubDataset(name=source.hub, revision=given.revision or "")
    if source.uri:
        scheme, _, rest = source.uri.partition("://")
        bucket, _, path = rest.partition("/")
        return path, core.ObjectStore(url=f"{scheme}://{bucket}")
    return places.path(source, field=f"{field}.prompts"), None


def _named_reward(given: NamedReward, places: _Places) -> RewardPart:
    field = f"spec.data.rewards[{given.name}]"
    return to_core(
        RewardPart,
        given,
        python=_python(given.python, places, field=field) if given.python else None,
    )


def _python(given: Python, places: _Places, *, field: str) -> PythonReward:
    return to_core(
        PythonReward,
        given,
        file=places.path(given.source, field=f"{field}.python.source"),
        memory_bytes=given.memory_mib * MIB,
    )


def _reward_model(given: RewardModel, places: _Places) -> core.ModelFiles:
    return to_core(
        core.ModelFiles,
        given,
        source=places.hub_or_path(given.source, field="spec.data.model.source"),
        is_path=given.source.hub is None,
    )


def _training(job: HetRLJob, places: _Places) -> core.TrainingSpec:
    storage = job.spec.storage
    curves = storage.tensorboard
    return to_core(
        core.TrainingSpec,
        job.spec.training,
        checkpoint_path=_checkpoint_path(job, places),
        keep_last_checkpoints=storage.checkpoints.keep_last,
        allowed_changes=storage.checkpoints.allow_changes,
        tensorboard_path=str(places.base_path / curves.path) if curves else "",
    )


def _checkpoint_path(job: HetRLJob, places: _Places) -> str:
    checkpoints = job.spec.storage.checkpoints
    claim = checkpoints.persistent_volume_claim
    if claim is None:
        return ""
    folder = checkpoints.path or job.metadata.name
    if places.claims is None:
        return f"{CHECKPOINTS_PATH}/{folder}"
    # A local run keeps its state together unless the user maps the claim to a folder.
    return str(places.claims[claim] / folder) if claim in places.claims else ""


def _resources(given: Resources) -> core.ResourcesSpec:
    return to_core(
        core.ResourcesSpec,
        given,
        pools=tuple(_pool(each) for each in given.pools),
        budget_dollars_per_hour=given.budget_per_hour,
    )


def _pool(given: Pool) -> core.PoolSpec:
    return to_core(
        core.PoolSpec,
        given,
        node_selector=tuple(sorted(given.node_selector.items())),
        dollars_per_gpu_hour=given.price_per_gpu_hour,
    )


def _rollout(given: Rollout) -> core.RolloutSpec:
    return to_core(core.RolloutSpec, given, replicas=given.replicas or None)


def _planning(given: Planning, *, now: datetime) -> core.PlanningSpec:
    objective = _objective(given.objective or Objective(), now=now)
    return to_core(core.PlanningSpec, given, objective=objective)


def _objective(given: Objective, *, now: datetime) -> core.Objective:
    if given.cost:
        return core.MinimiseCost(given.cost.required_samples_per_second)
    if given.deadline:
        finish_before = given.deadline.finish_before
        seconds_left = (finish_before - now).total_seconds()
        if seconds_left <= 0:
            raise InvalidObjectError(
                [
                    "spec.planning.objective.deadline.finishBefore must lie in the future, "
                    f"got {finish_before.isoformat()}"
                ]
            )
        return core.MeetDeadline(seconds_left)
    return core.MaximiseThroughput()
