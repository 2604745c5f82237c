"""From a HetRLJob to the core's ``JobSpec``: defaults that depend on each other, and paths.

A claim's path depends on where the job runs: pods mount each claim below ``CLAIMS_PATH``,
`hetrl run` maps it to a folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hetrl_api.job.algorithm import Algorithm, Critic
from hetrl_api.job.data import Data, LengthPenalty, Python, RewardModel
from hetrl_api.job.job import HetRLJob
from hetrl_api.job.model import Architecture, Model
from hetrl_api.job.planning import Objective, Planning
from hetrl_api.job.resources import Resources, Rollout
from hetrl_api.job.runtime import Telemetry
from hetrl_api.job.source import Claim, Source
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_core.job import algorithm
from hetrl_core.job import spec as core
from hetrl_core.job.architecture import ModelArchitecture

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
    spec = job.spec
    return core.JobSpec(
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
        traces=_traces(spec.runtime.telemetry),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Where relative paths and claims are on the machine that runs the job."""

    base_path: Path
    claims: Mapping[str, Path] | None

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
    hub = model.source.hub
    return core.ModelSpec(
        source=hub or places.path(model.source, field="spec.model.source"),
        is_path=hub is None,
        revision=model.revision or "",
        architecture=_architecture(model.architecture) if model.architecture else None,
    )


def _architecture(given: Architecture) -> ModelArchitecture:
    return ModelArchitecture(
        hidden_size=given.hidden_size,
        num_layers=given.layers,
        num_query_heads=given.query_heads,
        num_kv_heads=given.kv_heads,
        head_dim=given.head_dim,
        ffn_size=given.ffn_size,
        vocab_size=given.vocab_size,
        tied_embeddings=given.tied_embeddings,
        attention_bias=given.attention_bias,
        query_key_norm=given.query_key_norm,
    )


def _algorithm(given: Algorithm) -> algorithm.AlgorithmSpec:
    bound = given.max_staleness
    return algorithm.AlgorithmSpec(
        type=given.type,
        mode=given.mode,
        max_staleness=DEFAULT_MAX_STALENESS[given.mode] if bound is None else bound,
        group_size=given.group_size,
        global_batch_size=given.global_batch_size,
        minibatches=given.minibatches,
        clip_low=given.clip_low,
        clip_high=given.clip_high,
        behaviour_weight_cap=given.behaviour_weight_cap,
        stale_weights=given.stale_weights,
        proximal_policy=given.proximal_policy,
        advantage=given.advantage or algorithm.Advantage.GROUP_NORMALISED,
        critic=_critic(given.critic) if given.critic else algorithm.CriticSpec(),
        loss_aggregation=given.loss_aggregation,
        dynamic_sampling=given.dynamic_sampling,
        kl_coefficient=given.kl_coefficient,
        kl_placement=given.kl_placement,
        temperature=given.temperature,
    )


def _critic(given: Critic) -> algorithm.CriticSpec:
    return algorithm.CriticSpec(
        learning_rate=given.learning_rate,
        discount=given.discount,
        trace_decay=given.trace_decay,
        value_clip=given.value_clip,
        warm_up_steps=given.warm_up_steps,
        whiten_advantages=given.whiten_advantages,
    )


def _data(given: Data, places: _Places) -> core.DataSpec:
    prompts, dataset = _prompts(given, places)
    return core.DataSpec(
        prompts=prompts,
        dataset=dataset,
        question_field=given.question_field,
        answer_field=given.answer_field,
        reward=given.reward,
        regex=core.RegexReward(pattern=given.regex.pattern) if given.regex else None,
        python=_python(given.python, places) if given.python else None,
        model=_reward_model(given.model, places) if given.model else None,
        tools=given.tools,
        length_penalty=_length_penalty(given.length_penalty) if given.length_penalty else None,
        max_prompt_tokens=given.max_prompt_tokens,
        max_response_tokens=given.max_response_tokens,
        mean_response_tokens=given.mean_response_tokens,
    )


def _prompts(given: Data, places: _Places) -> tuple[str, core.HubDataset | core.ObjectStore | None]:
    """Return a path or pattern, and what that is inside of where it is not on this machine."""
    source = given.prompts
    if source.hub:
        return given.files or "", core.HubDataset(name=source.hub, revision=given.revision or "")
    if source.uri:
        scheme, _, rest = source.uri.partition("://")
        bucket, _, path = rest.partition("/")
        return path, core.ObjectStore(url=f"{scheme}://{bucket}")
    return places.path(source, field="spec.data.prompts"), None


def _length_penalty(given: LengthPenalty) -> core.LengthPenalty:
    return core.LengthPenalty(buffer_tokens=given.buffer_tokens, weight=given.weight)


def _python(given: Python, places: _Places) -> core.PythonReward:
    return core.PythonReward(
        file=places.path(given.source, field="spec.data.python.source"),
        function=given.function,
        timeout_seconds=given.timeout_seconds,
        cpu_seconds=given.cpu_seconds,
        memory_bytes=given.memory_mib << 20,
    )


def _reward_model(given: RewardModel, places: _Places) -> core.RewardModelSpec:
    hub = given.source.hub
    return core.RewardModelSpec(
        source=hub or places.path(given.source, field="spec.data.model.source"),
        is_path=hub is None,
        revision=given.revision or "",
    )


def _training(job: HetRLJob, places: _Places) -> core.TrainingSpec:
    given, checkpoints = job.spec.training, job.spec.storage.checkpoints
    tensorboard = job.spec.storage.tensorboard
    return core.TrainingSpec(
        steps=given.steps,
        learning_rate=given.learning_rate,
        checkpoint_every_steps=given.checkpoint_every_steps,
        checkpoint_path=_checkpoint_path(job, places),
        keep_last_checkpoints=checkpoints.keep_last,
        tensorboard_path=str(places.base_path / tensorboard.path) if tensorboard else "",
        seed=given.seed,
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
    return core.ResourcesSpec(
        pools=tuple(
            core.PoolSpec(
                name=pool.name,
                gpu_product=pool.gpu_product or "",
                node_selector=tuple(sorted(pool.node_selector.items())),
                max_gpus=pool.max_gpus,
                dollars_per_gpu_hour=pool.price_per_gpu_hour,
            )
            for pool in given.pools
        ),
        budget_dollars_per_hour=given.budget_per_hour,
        max_gpus=given.max_gpus,
    )


def _rollout(given: Rollout) -> core.RolloutSpec:
    return core.RolloutSpec(
        min_replicas=given.min_replicas,
        max_replicas=given.max_replicas,
        replicas=given.replicas or None,
    )


def _planning(given: Planning, *, now: datetime) -> core.PlanningSpec:
    return core.PlanningSpec(
        objective=_objective(given.objective or Objective(), now=now),
        strategy=given.strategy,
        time_budget_seconds=given.time_budget_seconds,
        seed=given.seed,
    )


def _traces(given: Telemetry | None) -> core.TracesSpec | None:
    traces = given and given.traces
    if not traces:
        return None
    return core.TracesSpec(endpoint=traces.endpoint, sample_ratio=traces.sample_ratio)


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
