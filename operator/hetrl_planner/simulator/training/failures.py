"""Failures of replicas and trainers: scheduled and random ones.

Replicas and the trainer handle their own losses.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from hetrl_planner.simulator.events.calendar import Calendar
from hetrl_planner.simulator.pipeline.pipeline import Failures
from hetrl_planner.simulator.serving.replica import Replica
from hetrl_planner.simulator.serving.weights import Route
from hetrl_planner.simulator.training.trainer import Trainer


class FailureInjector:
    """The source of failures in a run."""

    def __init__(
        self,
        calendar: Calendar,
        failures: Failures,
        *,
        replicas: Mapping[str, Sequence[Replica]],
        routes: Mapping[str, Route],
        trainer: Trainer,
        generator: np.random.Generator,
    ) -> None:
        self._calendar = calendar
        self._failures = failures
        self._routes = routes
        self._trainer = trainer
        self._generator = generator
        self.num_replica_losses = 0
        self.num_trainer_losses = 0
        for loss in failures.replicas:
            self._schedule_loss(
                replicas[loss.group][loss.replica], loss.at_seconds, loss.returns_after_seconds
            )
        for at in failures.trainer_at_seconds:
            calendar.after(at, self._lose_trainer)
        for group in replicas.values():
            for replica in group:
                self._schedule_random_loss(replica)
        self._schedule_random_trainer_loss()

    def _schedule_loss(self, replica: Replica, after: float, returns_after: float | None) -> None:
        self._calendar.after(after, lambda: self._lose(replica, returns_after))

    def _lose(self, replica: Replica, returns_after: float | None) -> None:
        if replica.is_lost:
            return
        self.num_replica_losses += 1
        replica.lose()
        if returns_after is not None:
            self._calendar.after(returns_after, lambda: self._restart(replica))

    def _restart(self, replica: Replica) -> None:
        self._routes[replica.group.region].restart(replica)

    def _schedule_random_loss(self, replica: Replica) -> None:
        mean = self._failures.replica_mean_seconds
        if mean is None:
            return
        after = float(self._generator.exponential(mean))

        def lose() -> None:
            self._lose(replica, self._failures.replica_return_seconds)
            self._schedule_random_loss(replica)

        self._calendar.after(after, lose)

    def _lose_trainer(self) -> None:
        self.num_trainer_losses += 1
        self._trainer.lose(seconds=self._failures.trainer_restart_seconds)

    def _schedule_random_trainer_loss(self) -> None:
        mean = self._failures.trainer_mean_seconds
        if mean is None:
            return

        def lose() -> None:
            self._lose_trainer()
            self._schedule_random_trainer_loss()

        self._calendar.after(float(self._generator.exponential(mean)), lose)
