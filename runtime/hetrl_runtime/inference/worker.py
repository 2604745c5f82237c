"""An inference worker's run: it serves from its registration to the end of the job.

asked ──▶ runners ──▶ passes, one after the other, in a thread ──▶ answers
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
from prometheus_client import CollectorRegistry

from hetrl_core.launch import Launch
from hetrl_core.task import Role, Task
from hetrl_runtime.compute.memory import keep_loaded
from hetrl_runtime.inference.model_runner import ModelRunner
from hetrl_runtime.inference.reference import ReferenceModel
from hetrl_runtime.inference.reward_model import RewardModel
from hetrl_runtime.inference.service import AskedReference, AskedReward, InferenceService
from hetrl_runtime.metrics.inference import InferenceMetrics
from hetrl_runtime.metrics.server import MetricsServer
from hetrl_runtime.process.activity import Activity
from hetrl_runtime.trainer.processes.peers import Peers
from hetrl_runtime.transport.channel import bind, open_async_server
from hetrl_runtime.transport.clients.coordinator_link import CoordinatorLink
from hetrl_runtime.transport.clients.follower_client import FollowerClient
from hetrl_runtime.transport.errors import RunEnded, ending_of
from hetrl_runtime.transport.weights.own_address import listening_address, own_address
from hetrl_runtime.wire.hetrl_pb2_grpc import add_InferenceServicer_to_server
from hetrl_runtime.wire.values import Ending, InferenceEndpoint, ProcessStatus

log = logging.getLogger(__name__)

REPORT_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The loaded models of one pod."""

    reference: ReferenceModel | None = None
    reward: RewardModel | None = None

    @classmethod
    def load(
        cls, launch: Launch, tasks: Collection[Task], peers: Peers, *, device: torch.device
    ) -> Self:
        """Load what a pod's tasks need; what is not divided, on the first of its processes alone.

        Raises:
            ModelError: a model is not there, or cannot be what it is to be.
        """
        reference = reward = None
        if Task.REFERENCE_INFERENCE in tasks:
            reference = ReferenceModel(launch, peers, device=device)
        if Task.REWARD_INFERENCE in tasks and peers.rank == 0:
            files = launch.data.model
            assert files, "a plan has this task only for a job that has such a model"
            reward = RewardModel(files, device=device)
        return cls(reference=reference, reward=reward)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """What they are for."""
        here = {Task.REFERENCE_INFERENCE: self.reference, Task.REWARD_INFERENCE: self.reward}
        return tuple(task for task, model in here.items() if model)

    def stop(self) -> None:
        """Let the pod's other processes go."""
        if self.reference:
            self.reference.stop()


class InferenceWorker:
    """One pod's worker."""

    def __init__(self, launch: Launch, models: Models, metrics: InferenceMetrics) -> None:
        self._launch = launch
        self._models = models
        self._metrics = metrics
        self._activity = Activity(time.monotonic())
        self._runners: list[ModelRunner[Any, Any]] = []
        self._service = InferenceService(
            launch.job,
            metrics,
            reference=self._asked_reference(models.reference) if models.reference else None,
            reward=self._asked_reward(models.reward) if models.reward else None,
        )

    async def run(self, *, process: str) -> Ending:
        """Answer until the run ends; return how it ended.

        Raises:
            TransportError: the coordinator refused us, or is gone.
            OSError: the port is taken.
        """
        try:
            async with (
                self._served() as endpoint,
                FollowerClient(self._link(process, endpoint)) as client,
                asyncio.TaskGroup() as tasks,
            ):
                for runner in self._runners:
                    tasks.create_task(runner.run(), name="passes")
                tasks.create_task(self._keep_reporting(client), name="status")
                tasks.create_task(_end_with_the_run(client), name="announcements")
        except ExceptionGroup as failures:
            return ending_of(failures)
        raise AssertionError("these tasks never end by themselves")

    def _asked_reference(self, model: ReferenceModel) -> AskedReference:
        runner = ModelRunner(model, note=self._note)
        self._runners.append(runner)
        return AskedReference(runner=runner, vocab_size=model.vocab_size)

    def _asked_reward(self, model: RewardModel) -> AskedReward:
        runner = ModelRunner(model, note=self._note)
        self._runners.append(runner)
        return AskedReward(runner=runner, reads=model.reads)

    def _link(self, process: str, endpoint: InferenceEndpoint) -> CoordinatorLink:
        return CoordinatorLink(
            self._launch, process=process, role=Role.INFERENCE, inference=endpoint
        )

    @asynccontextmanager
    async def _served(self) -> AsyncIterator[InferenceEndpoint]:
        """Yield where we are asked."""
        server = open_async_server()
        add_InferenceServicer_to_server(self._service, server)
        here = listening_address(self._launch, port=self._launch.inference_port)
        port = bind(server, here, self._launch.tls)
        await server.start()
        log.info("asked at: port=%d tasks=%s", port, ",".join(self._models.tasks))
        try:
            address = own_address(self._launch, port=port)
            yield InferenceEndpoint(address=str(address), tasks=self._models.tasks)
        finally:
            # Waiting callers ask another worker.
            await server.stop(grace=None)

    def _note(self) -> None:
        is_busy = any(runner.is_looking for runner in self._runners)
        self._activity.observe(is_busy=is_busy, now=time.monotonic())

    async def _keep_reporting(self, client: FollowerClient) -> None:
        while True:
            self._note()
            status = ProcessStatus(
                running=sum(len(runner.queue) for runner in self._runners),
                generated_tokens=sum(runner.seen_tokens for runner in self._runners),
                idle_seconds=self._activity.idle_seconds,
                busy_seconds=self._activity.busy_seconds,
            )
            client.report(status)
            self._metrics.show(status)
            await asyncio.sleep(REPORT_SECONDS)


async def _end_with_the_run(client: FollowerClient) -> None:
    async for news in client.announcements():
        if news.finished:
            raise RunEnded(Ending(reason=news.reason))


async def work(launch: Launch, load: Callable[[], Models], *, process: str) -> Ending:
    """Load models and serve them for a run until that ends; return how it ended.

    Cancel it to stop early.

    Raises:
        ModelError: as ``load`` does.
        TransportError: the coordinator refused us, or is gone.
        OSError: a port is taken.
    """
    registry = CollectorRegistry()
    metrics = InferenceMetrics(registry)
    with MetricsServer(registry, launch) as served:
        models = await asyncio.to_thread(load)
        keep_loaded()
        served.say_ready()
        try:
            return await InferenceWorker(launch, models, metrics).run(process=process)
        finally:
            models.stop()
