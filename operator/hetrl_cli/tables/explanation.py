"""Sentences that explain a plan: its rate, the remedy of its bottleneck, its figures' origin."""

from collections.abc import Iterator

from hetrl_core.job.spec import Engine, JobSpec
from hetrl_core.plan.plan import Plan
from hetrl_core.task import Task
from hetrl_core.weights import constants
from hetrl_core.weights.constants import Constant, Origin
from hetrl_core.weights.way import WeightWay

_NOTABLE = 0.02
"""Share of a rate or step that is worth a sentence."""

REMEDIES = {
    "staleness bound": "a larger spec.algorithm.maxStaleness, or weights that arrive sooner",
    "the batch of": "a larger spec.algorithm.globalBatchSize",
    "HBM bandwidth of the optimizer": "more training replicas, which divide the optimizer",
    "HBM bandwidth": "more GPUs for generation, or GPUs with faster memory",
    "tensor-parallel communication": "GPUs that NVLink connects, or fewer GPUs a replica",
    "pipeline bubble": "fewer stages (GPUs with more memory), faster links between machines, or "
    "fewer spec.algorithm.minibatches",
    "gradient all-reduce": "faster links between training machines, or fewer "
    "spec.algorithm.minibatches",
    "gather of the weights": "a trainer whose stages are on one machine",
    "compute": "more or faster GPUs",
}
"""What relieves a bottleneck, by words of its description; the first that occur."""


def remedy(bottleneck: str) -> str:
    """Return the field or hardware that relieves a bottleneck; empty if none is known."""
    return next((text for words, text in REMEDIES.items() if words in bottleneck), "")


def lost_rate(plan: Plan) -> str:
    """Say why a plan makes less than its rollouts do while they generate; empty if it does not."""
    step = plan.prediction.step_seconds
    generating = sum(
        len(group.replicas) * group.samples_per_second
        for group in plan.groups_with(Task.ACTOR_GENERATION)
    )
    total = plan.prediction.samples_per_second
    if not generating or total > generating * (1 - _NOTABLE):
        return ""
    words = f"rollouts make {generating:.4g} samples/s while they generate"
    paused = max((path.load_seconds for path in plan.weight_paths), default=0.0)
    if paused > _NOTABLE * step:
        words += f"; they pause {paused:.3g} s of each step to load weights"
    arrives = max((path.transfer_seconds for path in plan.weight_paths), default=0.0)
    if arrives > _NOTABLE * step:
        words += f", which arrive {arrives:.3g} s after they are published"
    return words


def origins(plan: Plan, job: JobSpec) -> Iterator[tuple[Origin, tuple[str, ...]]]:
    """Yield the figures of transport that a plan's prediction rests on, by their origin."""
    used = dict.fromkeys(each for path in plan.weight_paths for each in _of_way(path.way))
    if used:
        used |= dict.fromkeys((constants.LOAD, constants.DEVICE_TO_HOST))
        if job.engine is Engine.VLLM:
            used |= {constants.FILE: None}
        if any(group.parallelism.num_stages > 1 for group in plan.groups_with(Task.ACTOR_TRAINING)):
            used |= {constants.GATHER: None}
    for origin in Origin:
        if names := tuple(each.name for each in used if each.origin is origin):
            yield origin, names


def _of_way(way: WeightWay) -> tuple[Constant, ...]:
    if way is WeightWay.BROADCAST:
        return (constants.BROADCAST_NCCL,)
    streams = (constants.STREAM, constants.SENDING_CORE, constants.DIGEST)
    if way.is_patched:
        return (*streams, constants.PATCH_MADE, constants.PATCH_APPLIED)
    return streams
