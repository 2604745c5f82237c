"""The trainer's loop: fetch a batch, train a step, publish weights, commit.

    coordinator ── whole batch ──▶ check ─▶ learner ─▶ weights, published ─▶ commit ─▶ checkpoint
                                                          └──▶ rollout workers

Weights are published before the commit that announces them, so a worker that hears of a
version can fetch it. A version whose numbers are not good is neither published nor committed: the
guards end the run at the one before. The checkpoint follows the commit, whose answer has the resume
point, and is written while the next step trains. A crash in between loses versions, never
consistency: the coordinator is rewound to the checkpoint. The run ends when the checkpoint of its
last version is on the disk.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry

from hetrl_core.job.algorithm import AlgorithmType
from hetrl_core.job.identity import Aspect, Identity
from hetrl_core.job.spec import WeightTransport
from hetrl_core.launch import Address, Launch
from hetrl_core.staleness import StalenessBound
from hetrl_runtime.broadcast.sender import Sender
from hetrl_runtime.compute.memory import keep_loaded
from hetrl_runtime.metrics.server import MetricsServer
from hetrl_runtime.metrics.trainer import TrainerMetrics
from hetrl_runtime.process.faults import FaultPoints, Point
from hetrl_runtime.tracing.current import current_span, traced
from hetrl_runtime.tracing.span import NO_TRACER, Tracer
from hetrl_runtime.trainer.batch import Batch, collate
from hetrl_runtime.trainer.batch_checks import Checked, SignalWatch, check, shuffled
from hetrl_runtime.trainer.checkpoints.checkpoint import CheckpointFolder
from hetrl_runtime.trainer.checkpoints.continuation import recorded_identity
from hetrl_runtime.trainer.checkpoints.identity import identity_of
from hetrl_runtime.trainer.checkpoints.writer import CheckpointWriter
from hetrl_runtime.trainer.guards.engine_match import EngineWatch
from hetrl_runtime.trainer.guards.not_finite import NotFiniteWatch
from hetrl_runtime.trainer.learner import Learner, Trained
from hetrl_runtime.trainer.processes.peers import Order, Peers
from hetrl_runtime.trainer.step_observer import StepObserver
from hetrl_runtime.trainer.stop_signal import StopRequested, StopSignal
from hetrl_runtime.transport.clients.coordinator_client import TrainerClient
from hetrl_runtime.transport.errors import RunEnded
from hetrl_runtime.transport.weights.weights import Snapshot, WeightServer
from hetrl_runtime.wire.trajectory import SampledTrajectory
from hetrl_runtime.wire.values import ALL_STEPS_DONE, Ending, ResumePoint

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
        self._engine = EngineWatch(learner.match_limit)
        self._checkpoints = CheckpointFolder(
            Path(launch.checkpoint_path), keep_last=launch.training.keep_last_checkpoints
        )
        self._identity: Identity = {}
        self._recorded: Identity = {}
        """What the checkpoint is of that the run continues."""

        self._resume = ResumePoint()
        self._saved_version = 0
        self._trained_version = 0
        self._current_since = 0
        """The first version that had the weights of now."""

        self._weights = memoryview(b"")
        """As published last."""

    def run(self) -> Ending | None:
        """Train to the end of the run; return how it ended, or None after a stop.

        Raises:
            CheckpointError: a checkpoint is damaged or cannot be written.
            TransportError: the coordinator refused us or is gone.
        """
        self._restore()
        with ExitStack() as open_parts:
            self._open(open_parts)
            try:
                return self._train()
            finally:
                self._peers.give(Order(version=self._resume.version))

    @FaultPoints(after=Point.RESTORED)
    def _restore(self) -> None:
        """Go on from the newest checkpoint, or begin."""
        self._checkpoints.take(self._launch.job.uid)
        self._checkpoints.prepare()
        self._identity = identity_of(self._launch)
        self._recorded = recorded_identity(
            self._checkpoints,
            self._identity,
            allowed=self._launch.training.allowed_changes,
        )
        checkpoint = self._checkpoints.newest()
        self._learner.restore(checkpoint)
        self._weights = self._learner.weights()
        if checkpoint:
            self._resume = checkpoint.resume
            self._saved_version = self._trained_version = checkpoint.resume.version
            self._current_since = checkpoint.resume.version
            log.info("resumed: checkpoint=%s", checkpoint.path)

    def _open(self, open_parts: ExitStack) -> None:
        """Open what the training loop needs; the exit stack closes it."""
        registry = CollectorRegistry()
        metrics = TrainerMetrics(registry)
        self._observer = StepObserver(metrics, self._tracer)
        num_steps = self._launch.training.steps - self._resume.version
        self._not_finite = NotFiniteWatch(num_steps=num_steps)
        self._writer = CheckpointWriter(self._checkpoints, metrics)
        open_parts.callback(self._checkpoints.close)
        open_parts.callback(self._writer.finish)
        served = open_parts.enter_context(MetricsServer(registry, self._launch))
        self._server = self._opened_weight_server(open_parts)
        keep_loaded()
        served.say_ready()
        self._client = open_parts.enter_context(TrainerClient(self._launch, process=self._process))

    def _opened_weight_server(self, open_parts: ExitStack) -> WeightServer:
        launch = self._launch
        # The address in the contract is the one that peers dial; ``listen_host`` is local.
        here = Address(host=launch.listen_host, port=launch.weights.port)
        server = WeightServer(job=launch.job, address=here, tls=launch.tls)
        sender = Sender(launch, server) if launch.weight_transport is WeightTransport.NCCL else None
        open_parts.enter_context(server)
        if sender:
            open_parts.enter_context(sender)
        return server

    def _train(self) -> Ending | None:
        training = self._launch.training
        is_done = False
        try:
            self._server.publish(Snapshot(version=self._resume.version, data=self._weights))
            self._register()
            while self._resume.version < training.steps:
                with self._observer.step(self._resume.version):
                    if ending := self._step():
                        break
                    self._writer.check()
                    if self._resume.version % training.checkpoint_every_steps == 0:
                        self._save()
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
        self._save()
        self._writer.finish()
        return self._conclude(ending) if ending and is_done else ending

    @FaultPoints(after=Point.REGISTERED)
    def _register(self) -> None:
        with self._stop.interrupts():
            self._client.register(self._resume, data=self._recorded.get(Aspect.DATA))
        self._checkpoints.identity = {**self._identity, Aspect.DATA: self._client.data}

    # consumes: one whole batch   waits for: the coordinator   unblocks: rollout workers
    def _step(self) -> Ending | None:
        """Train one version; return how the run ends where that is now."""
        version = self._resume.version
        checked = self._check(self._next_batch(version), version)
        trained = self._learn(checked.admitted, version)
        if ending := self._objection(trained, checked, version):
            return self._conclude(ending)
        self._publish(version + 1)
        ending = self._signal.see(
            groups=[self._compared_in(each) for each in checked.admitted],
            rewards=[each.reward for each in checked.admitted],
        )
        self._commit(version + 1, checked, trained.figures, ending)
        return ending

    @FaultPoints(after=Point.BATCH_RECEIVED)
    @traced("wait for batch")
    def _next_batch(self, version: int) -> list[SampledTrajectory]:
        with self._stop.interrupts():
            batch = self._client.next_batch(version=version)
        self._observer.received()
        return batch

    def _check(self, batch: Sequence[SampledTrajectory], version: int) -> Checked:
        checked = check(batch, bound=self._bound, version=version)
        self._observer.checked(checked, version=version)
        return checked

    @FaultPoints(after=Point.VERSION_TRAINED)
    @traced("train")
    def _learn(self, trajectories: tuple[SampledTrajectory, ...], version: int) -> Trained:
        trained = Trained(figures={}, has_moved=False)
        if trajectories:
            batch = self._collated(trajectories, version)
            self._peers.give(Order(version=version, batch=batch))
            trained = self._learner.train(batch, version=version)
            self._weights = self._learner.weights()
        self._trained_version = version + 1
        if trained.has_moved:
            self._current_since = version + 1
        return trained

    def _objection(self, trained: Trained, checked: Checked, version: int) -> Ending | None:
        """Return how the run ends where a version must not be published or kept."""
        ids = [each.id for each in checked.admitted]
        self._observer.skipped(trained.skipped, ids, version=version)
        not_finite = self._not_finite.see(trained.skipped, version=version, ids=ids)
        return not_finite or self._engine.see(trained.comparison)

    def _collated(self, trajectories: tuple[SampledTrajectory, ...], version: int) -> Batch:
        training = self._launch.training
        rewards = [each.reward for each in trajectories]
        if training.shuffle_rewards:
            rewards = shuffled(rewards, seed=training.seed, version=version)
        return collate(trajectories, rewards=rewards, current_since=self._current_since)

    @FaultPoints(after=Point.VERSION_PUBLISHED)
    def _publish(self, version: int) -> None:
        with traced("publish weights") as span:
            span.note({"hetrl.weights_bytes": len(self._weights)})
            self._server.publish(Snapshot(version=version, data=self._weights))
        self._observer.published()

    def _compared_in(self, trajectory: SampledTrajectory) -> int:
        """Return the number of those that a trajectory's reward is compared with.

        A critic compares what it sees with all that it has seen.
        """
        return 0 if self._launch.algorithm.type is AlgorithmType.PPO else trajectory.group

    def _commit(
        self, version: int, checked: Checked, figures: Mapping[str, float], ending: Ending | None
    ) -> None:
        step = current_span()
        with (
            FaultPoints(after=Point.VERSION_COMMITTED),
            traced("commit"),
            self._stop.interrupts(after_seconds=_COMMIT_GRACE_SECONDS),
        ):
            self._resume = self._client.commit(
                version=version,
                consumed=[each.id for each in checked.admitted],
                discarded=[each.id for each in checked.discarded],
                report=self._observer.report(figures),
                ending=ending,
                traceparent=step.traceparent,
            )
        self._observer.committed(self._resume.version, checked, figures)
        self._client.report(self._observer.status)

    def _save(self) -> None:
        if self._trained_version != self._resume.version:
            # Its weights would be of a version that the coordinator never counted, and what
            # made them would be trained on twice.
            log.warning("not saved: version %d was not committed", self._trained_version)
            return
        if self._saved_version == self._resume.version:
            return
        if self._not_finite.is_alarmed and self._resume.version < self._launch.training.steps:
            # It would take the place of a good one, and may be what made the step not finite.
            log.warning("not saved: the step of version %d was skipped", self._resume.version - 1)
            return
        self._peers.give(Order(version=self._resume.version, saves=True))
        # Writing outlives the checkpoint's span.
        step = current_span()
        with traced("checkpoint"):
            self._writer.begin(
                self._resume,
                save_model=partial(self._learner.save_policy, weights=self._weights),
                state=self._learner.state,
                span=step,
            )
        self._saved_version = self._resume.version

    @FaultPoints(before=Point.LAST_CHECKPOINT_DONE)
    def _conclude(self, ending: Ending) -> Ending | None:
        """Let the coordinator end a run that is done, now that its last version is kept."""
        try:
            with self._stop.interrupts(after_seconds=_COMMIT_GRACE_SECONDS):
                self._client.conclude(version=self._resume.version, ending=ending)
        except StopRequested:
            log.info("stopping: the coordinator does not know that all steps are done")
            return None
        return ending
