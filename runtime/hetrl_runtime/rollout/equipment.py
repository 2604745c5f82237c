"""The parts of a rollout worker, each opened and closed by its set-up."""

from dataclasses import dataclass

from hetrl_runtime.metrics.rollout import RolloutMetrics
from hetrl_runtime.reward.confinement.code import ConfinedCode
from hetrl_runtime.reward.scoring import VerifierPool
from hetrl_runtime.rollout.engine import InferenceEngine
from hetrl_runtime.rollout.prompts import PromptFormat
from hetrl_runtime.tracing.span import NO_TRACER, Tracer
from hetrl_runtime.transport.clients.coordinator_client import WorkerClient
from hetrl_runtime.transport.clients.inference_client import InferenceClient
from hetrl_runtime.transport.weights.relay import WeightSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """The open parts of one worker."""

    engine: InferenceEngine
    prompts: PromptFormat
    scorer: VerifierPool | ConfinedCode | None
    """None: a reward model does, which ``inference`` is asked for."""

    client: WorkerClient
    weights: WeightSource
    metrics: RolloutMetrics
    inference: InferenceClient | None = None
    """None: no inference worker is asked anything."""

    tracer: Tracer = NO_TRACER
