"""The trainer's loop: fetch a batch, train a step, publish weights, commit.

    coordinator ── whole batch ──▶ check ─▶ learner ─▶ weights, published ─▶ commit ─▶ checkpoint
                                                          └──▶ rollout workers

Weights are published before the commit that announces them, so a worker that hears of a
version can fetch it. The checkpoint follows the commit, whose answer has the resume point, and is
written while the next step trains. A crash in between loses versions, never consistency: the
coordinator is rewound to the checkpoint. The run ends when the checkpoint of its last version is on
the disk.
"""

import logging
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry

from hetrl_core.job.algorithm import AlgorithmType
from hetrl_core.job.spec import WeightTransport
from hetrl_core.launch import Address, Launch
from hetrl_core.staleness import StalenessBound
from hetrl_runtime.broadcast.sender import Sender
from hetrl_runtime.compute.memory import keep_loaded
from hetrl_runtime.metrics.server import MetricsServer
from hetrl_runtime.metrics.trainer import TrainerMetrics
from hetrl_runtime.process.faults import Point, passing
from hetrl_runtime.tracing.span import NO_TRACER, UNTRACED, Span, Tracer
from hetrl_runtime.trainer.batch import collate
from hetrl_runtime.trainer.batch_checks import Checked, SignalWatch, check, shuffled
from hetrl_runtime.trainer.checkpoints.checkpoint import CheckpointFolder
from hetrl_runtime.trainer.checkpoints.writer import CheckpointWriter
from hetrl_runtime.trainer.learner import Learner
from hetrl_runtime.trainer.processes.peers import Order, Peers
from hetrl_runtime.trainer.stop_signal import StopRequested, StopSignal
from hetrl_runtime.transport.clients.coordinator_client import TrainerClient
from hetrl_runtime.transport.errors import RunEnded
from hetrl_runtime.transport.weights.weights import Snapshot, WeightServer
from hetrl_runtime.wire.trajectory import SampledTrajectory
from hetrl_runtime.wire.values import ALL_STEPS_DONE, Ending, ProcessStatus, ResumePoint, StepReport

log = logging.getLogger(__name__)


_COMMIT_GRACE_SECONDS = 10.0
"""After a stop, for the coordinator to answer a commit: it may have been stopped as well."""


def follow(launch: Launch, learner: Learner, peers: Peers) -> None:
    """Do what the leader orders until it orders to stop; for every rank but the first."""
    registry = CollectorRegistry()
    metrics = TrainerMetrics(registry)
    with MetricsServer(registry, launch) as served:
        learner.restore(None)
        # Whatever the leader puts together, everyone has a part of.
        learner.weights()
        keep_loaded()
        served.say_ready()
        while (order := peers.await_order()).batch is not None or order.saves:
            if order.batch is None:
                learner.state()
                continue
            learner.train(order.batch, version=order.version)
            learner.weights()
            metrics.step.set(order.version + 1)


class Leader:
    """The first rank: the run's only voice to the coordinator and hand on the disk."""

    def __init__(
        self,
        launch: Launch,
        *,
        process: str,
        learner: Learner,
        peers: Peers,
        stop: StopSignal,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self._launch = launch
        self._process = process
        self._learner = learner
        self._peers = peers
        self._stop = stop
        self._tracer = tracer
        self._bound = StalenessBound(max_staleness=launch.algorithm.max_staleness)
        self._signal = SignalWatch()
        self._checkpoints = CheckpointFolder(
            Path(launch.checkpoint_path), keep_last=launch.training.keep_last_checkpoints
        )
        self._status = ProcessStatus()
        self._resume = ResumePoint()
        self._saved_version = 0
        self._trained_version = 0
        self._weights = memoryview(b"")
        """As published last."""

    def run(self) -> Ending | None:
        """Train to the end of the run; return how it ended, or None after a stop.

        Raises:
            CheckpointError: a checkpoint is damaged or cannot be written.
            TransportError: the coordinator refused us or is gone.
        """
        self._checkpoints.prepare()
        checkpoint = self._checkpoints.newest()
        self._learner.restore(checkpoint)
        self._weights = self._learner.weights()
        if checkpoint:
            self._resume = checkpoint.resume
            self._saved_version = self._trained_version = checkpoint.resume.version
            log.info("resumed: checkpoint=%s", checkpoint.path)
        passing(Point.RESTORED)
        with ExitStack() as open_parts:
            registry = CollectorRegistry()
            metrics = TrainerMetrics(registry)
            writer = CheckpointWriter(self._checkpoints, metrics)
            open_parts.callback(writer.finish)
            served = open_parts.enter_context(MetricsServer(registry, self._launch))
            weights = self._opened_weights(open_parts)
            keep_loaded()
            served.say_ready()
            client = open_parts.enter_context(TrainerClient(self._launch, process=self._process))
            try:
                return self._train(client, weights, writer, metrics)
            finally:
                self._peers.give(Order(version=self._resume.version))

    def _train(
        self,
        client: TrainerClient,
        weights: WeightServer,
        writer: CheckpointWriter,
        metrics: TrainerMetrics,
    ) -> Ending | None:
        is_done = False
        try:
            weights.publish(Snapshot(version=self._resume.version, data=self._weights))
            with self._stop.interrupts():
                client.register(self._resume)
            passing(Point.REGISTERED)
            while self._resume.version < self._launch.training.steps:
                with self._tracer.root("step", {"hetrl.version": self._resume.version}) as span:
                    if ending := self._step(client, weights, metrics, span):
                        break
                    writer.check()
                    if self._resume.version % self._launch.training.checkpoint_every_steps == 0:
                        self._save(writer, span)
            else:
                is_done = True
                ending = Ending(
                    reason=ALL_STEPS_DONE, message=f"{self._resume.version} steps are done"
                )
        except StopRequested:
            log.info("stopping: version=%d", self._resume.version)
            ending = None
        except RunEnded as ended:
            ending = ended.ending
        self._save(writer)
        writer.finish()
        return self._conclude(client, ending) if ending and is_done else ending

    def _conclude(self, client: TrainerClient, ending: Ending) -> Ending | None:
        """Let the coordinator end a run that is done, now that its last version is kept."""
        passing(Point.LAST_CHECKPOINT_DONE)
        try:
            with self._stop.interrupts(after_seconds=_COMMIT_GRACE_SECONDS):
                client.conclude(version=self._resume.version, ending=ending)
        except StopRequested:
            log.info("stopping: the coordinator does not know that all steps are done")
            return None
        return ending

    # consumes: one whole batch   waits for: the coordinator   unblocks: rollout workers
    def _step(
        self,
        client: TrainerClient,
        weights: WeightServer,
        metrics: TrainerMetrics,
        span: Span,
    ) -> Ending | None:
        version = self._resume.version
        started_at = time.monotonic()
        with span.child("wait for batch"), self._stop.interrupts():
            trajectories = client.next_batch(version=version)
        passing(Point.BATCH_RECEIVED)
        wait_seconds = time.monotonic() - started_at
        checked = check(trajectories, bound=self._bound, version=version)
        _link(span, checked, version=version)
        with span.child("train"):
            figures = self._learn(checked.admitted, version=version)
        self._trained_version = version + 1
        passing(Point.VERSION_TRAINED)
        with span.child("publish weights", {"hetrl.weights_bytes": len(self._weights)}):
            weights.publish(Snapshot(version=version + 1, data=self._weights))
        passing(Point.VERSION_PUBLISHED)
        step_seconds = time.monotonic() - started_at
        ending = self._signal.see(
            groups=[self._compared_in(each) for each in checked.admitted],
            rewards=[each.reward for each in checked.admitted],
        )
        with (
            span.child("commit"),
            self._stop.interrupts(after_seconds=_COMMIT_GRACE_SECONDS),
        ):
            self._resume = client.commit(
                version=version + 1,
                consumed=[each.id for each in checked.admitted],
                discarded=[each.id for each in checked.discarded],
                report=StepReport(
                    step_seconds=step_seconds, wait_seconds=wait_seconds, metrics=figures
                ),
                ending=ending,
                traceparent=span.traceparent,
            )
        passing(Point.VERSION_COMMITTED)
        metrics.step.set(self._resume.version)
        metrics.step_seconds.observe(step_seconds)
        metrics.wait_seconds.observe(wait_seconds)
        metrics.tokens.inc(sum(each.num_response_tokens for each in checked.admitted))
        metrics.last_step_at.set_to_current_time()
        metrics.show(figures)
        self._report_status(client, step_seconds=step_seconds, wait_seconds=wait_seconds)
        return ending

    def _learn(
        self, trajectories: tuple[SampledTrajectory, ...], *, version: int
    ) -> dict[str, float]:
        if not trajectories:
            return {}
        training = self._launch.training
        rewards = [each.reward for each in trajectories]
        if training.shuffle_rewards:
            rewards = shuffled(rewards, seed=training.seed, version=version)
        order = Order(version=version, batch=collate(trajectories, rewards=rewards))
        self._peers.give(order)
        assert order.batch is not None
        figures = self._learner.train(order.batch, version=version)
        self._weights = self._learner.weights()
        return figures

    def _compared_in(self, trajectory: SampledTrajectory) -> int:
        """Return the number of those that a trajectory's reward is compared with.

        A critic compares what it sees with all that it has seen.
        """
        return 0 if self._launch.algorithm.type is AlgorithmType.PPO else trajectory.group

    def _save(self, writer: CheckpointWriter, span: Span = UNTRACED) -> None:
        if self._trained_version != self._resume.version:
            # Its weights would be of a version that the coordinator never counted, and what
            # made them would be trained on twice.
            log.warning("not saved: version %d was not committed", self._trained_version)
            return
        if self._saved_version == self._resume.version:
            return
        self._peers.give(Order(version=self._resume.version, saves=True))
        with span.child("checkpoint"):
            writer.begin(
                self._resume,
                save_model=partial(self._learner.save_policy, weights=self._weights),
                state=self._learner.state,
                span=span,
            )
        self._saved_version = self._resume.version

    def _report_status(
        self, client: TrainerClient, *, step_seconds: float, wait_seconds: float
    ) -> None:
        self._status = ProcessStatus(
            version=self._resume.version,
            idle_seconds=self._status.idle_seconds + wait_seconds,
            busy_seconds=self._status.busy_seconds + step_seconds - wait_seconds,
        )
        client.report(self._status)

    def _opened_weights(self, open_parts: ExitStack) -> WeightServer:
        launch = self._launch
        # The address in the contract is the one that peers dial; ``listen_host`` is local.
        here = Address(host=launch.listen_host, port=launch.weights.port)
        server = WeightServer(job=launch.job, address=here, tls=launch.tls)
        sender = Sender(launch, server) if launch.weight_transport is WeightTransport.NCCL else None
        open_parts.enter_context(server)
        if sender:
            open_parts.enter_context(sender)
        return server


def _link(span: Span, checked: Checked, *, version: int) -> None:
    """Name what a step is made of; those of its trajectories that are traced lead to their way."""
    span.note(
        {
            "hetrl.trajectories": len(checked.admitted),
            "hetrl.discarded": len(checked.discarded),
            "hetrl.tokens": sum(each.num_response_tokens for each in checked.admitted),
        }
    )
    for each in checked.admitted:
        if each.traceparent:
            staleness = version - each.oldest_version
            span.link(
                [each.traceparent],
                {
                    "hetrl.group": each.group,
                    "hetrl.member": each.member,
                    "hetrl.staleness": staleness,
                },
            )
