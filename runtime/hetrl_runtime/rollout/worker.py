"""Set-up of a rollout worker from its launch contract, and its teardown."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from hetrl_core.job.spec import WeightTransport
from hetrl_core.launch import Launch
from hetrl_core.task import Task
from hetrl_runtime.compute.memory import keep_loaded
from hetrl_runtime.metrics.rollout import RolloutMetrics
from hetrl_runtime.metrics.server import MetricsServer
from hetrl_runtime.model_files.folder import model_folder
from hetrl_runtime.reward.scorer import Scorer
from hetrl_runtime.rollout.engine import EngineSettings, InferenceEngine
from hetrl_runtime.rollout.engines import open_engine
from hetrl_runtime.rollout.loop import RolloutLoop
from hetrl_runtime.rollout.prompts import PromptFormat
from hetrl_runtime.rollout.responder import Equipment
from hetrl_runtime.tracing.span import Tracer
from hetrl_runtime.tracing.tracer import tracer_of
from hetrl_runtime.transport.clients.coordinator_client import WorkerClient
from hetrl_runtime.transport.clients.inference_client import InferenceClient
from hetrl_runtime.transport.weights.relay import Broadcast, weight_source
from hetrl_runtime.wire.values import Ending


async def work(launch: Launch, *, ordinal: int) -> Ending:
    """Generate for a run until it ends; return how it ended. Cancel it to stop early.

    Raises:
        ModelError, CodeError, ValueError, OSError: the contract cannot be carried out here.
        TransportError: the coordinator refused us or was away for too long.
        EngineFailedError: the engine broke down.
        TracesUnavailableError: OpenTelemetry's packages are not installed.
    """
    process = f"{launch.pod_set}-{ordinal}"
    # Before the model, which takes its time: traces may have to be refused.
    with tracer_of(launch, process=process) as tracer:
        return await _work(launch, process=process, ordinal=ordinal, tracer=tracer)


async def _work(launch: Launch, *, process: str, ordinal: int, tracer: Tracer) -> Ending:
    registry = CollectorRegistry()
    metrics = RolloutMetrics(registry)
    folder = await asyncio.to_thread(model_folder, launch.model)
    Path(launch.state_path).mkdir(parents=True, exist_ok=True)
    with (
        MetricsServer(registry, launch) as served,
        weight_source(
            launch, process=process, broadcast=_broadcast(launch, process, ordinal)
        ) as weights,
    ):
        prompts = PromptFormat.of(folder, launch.data)
        settings = engine_settings(launch, folder=folder, prompts=prompts, ordinal=ordinal)
        async with (
            _scorer(launch) as scorer,
            _started(open_engine(launch.engine, settings), then=served.say_ready) as engine,
            _asked(launch, process) as inference,
            WorkerClient(launch, process=process, relay=weights.relay) as client,
        ):
            equipment = Equipment(
                engine=engine,
                prompts=prompts,
                scorer=scorer,
                client=client,
                weights=weights,
                metrics=metrics,
                inference=inference,
                tracer=tracer,
            )
            return await RolloutLoop(launch, process=process, equipment=equipment).run()


def _scorer(launch: Launch) -> Scorer:
    # With ``hetrl run``, the run's keys may lie below the folder of the job's own code.
    keys = str(Path(launch.tls.key).parent) if launch.tls else ""
    return Scorer(launch.data, private=keys)


def _broadcast(launch: Launch, process: str, ordinal: int) -> Broadcast | None:
    if launch.weight_transport is WeightTransport.GRPC or launch.weights_cross_regions:
        return None
    if launch.trains(ordinal):
        # NCCL refuses two members of a group on one GPU.
        return None
    # It brings torch, which not every engine's process needs.
    from hetrl_runtime.broadcast.receiver import Receiver  # noqa: PLC0415

    return Receiver(launch, process=process)


@asynccontextmanager
async def _asked(launch: Launch, process: str) -> AsyncIterator[InferenceClient | None]:
    """Yield the client of inference workers, if rollouts need one."""
    if not launch.inference_tasks:
        yield None
        return
    async with InferenceClient(launch, process=process) as client:
        yield client


def engine_settings(
    launch: Launch, *, folder: Path, prompts: PromptFormat, ordinal: int
) -> EngineSettings:
    """Return what the contract asks of the engine of one pod."""
    seed = zlib.crc32(f"{launch.training.seed} {launch.pod_set} {ordinal}".encode())
    return EngineSettings(
        model=str(folder),
        concurrency=launch.concurrency,
        max_sequence_tokens=launch.data.max_prompt_tokens + launch.data.max_response_tokens,
        lengths=launch.data.lengths,
        stop_tokens=prompts.stop_tokens,
        tensor_parallel=_tensor_parallel(launch, ordinal=ordinal),
        seed=seed,
        kv_cache_bytes=launch.kv_cache_bytes,
        times_first_token=launch.traces is not None,
    )


def _tensor_parallel(launch: Launch, *, ordinal: int) -> int:
    ranks = [
        rank
        for rank in launch.ranks
        if rank.task is Task.ACTOR_GENERATION and rank.ordinal == ordinal
    ]
    if len({rank.replica for rank in ranks}) > 1 or any(rank.stage for rank in ranks):
        raise ValueError(
            f"{launch.pod_set}-{ordinal}: this release serves one replica without pipeline "
            f"stages in a pod, the rank table gives it {len(ranks)} ranks of several"
        )
    return max(1, len(ranks))


@asynccontextmanager
async def _started(
    engine: InferenceEngine, *, then: Callable[[], None]
) -> AsyncIterator[InferenceEngine]:
    try:
        await engine.start()
        keep_loaded()
        then()
        yield engine
    finally:
        await engine.stop()
