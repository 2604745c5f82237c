"""The trainer: it takes a batch, trains, publishes a version, and recovers from failures.

The coordinator chooses the batch; routes transfer versions.
"""

from collections.abc import Callable, Mapping

from hetrl_planner.simulator.coordination.coordinator import Coordinator
from hetrl_planner.simulator.events.calendar import Calendar
from hetrl_planner.simulator.events.trajectory import Trajectory
from hetrl_planner.simulator.pipeline.pipeline import TrainerSpec
from hetrl_planner.simulator.serving.gpus import GpuTurns
from hetrl_planner.simulator.training.training_side import TrainingSide


class Trainer:
    """One trainer, waiting, training or lost."""

    def __init__(
        self,
        calendar: Calendar,
        spec: TrainerSpec,
        coordinator: Coordinator,
        *,
        batch_size: int,
        turns: Mapping[str, GpuTurns],
        publish: Callable[[int], None],
    ) -> None:
        """Wait for a batch.

        ``simulate`` sets ``on_step``: it receives the staleness of each trajectory of a batch
        when its version is done.
        """
        self._calendar = calendar
        self._spec = spec
        self._coordinator = coordinator
        self._publish = publish
        self._num_parts = spec.minibatches if spec.streams_minibatches else 1
        self._part_size = batch_size // self._num_parts
        self._sides = [
            TrainingSide(
                calendar,
                seconds=seconds / self._num_parts,
                gpus=[turns[name] for name in sorted(set(gpus))],
                on_done=self._finish_side,
            )
            for seconds, gpus in (
                (spec.step_seconds, spec.gpus),
                *((each.step_seconds, each.gpus) for each in spec.beside),
            )
        ]
        self._sides_left = 0
        self._parts_done = 0
        self._batch: list[Trajectory] = []
        self._lost_since: float | None = None
        self._lost_seconds = 0.0
        self.on_step: Callable[[list[int]], None] = _ignore_step
        self.num_lost_steps = 0
        """Versions that were rewound."""

    @property
    def waits(self) -> bool:
        """Whether it would take more work now."""
        return not self._sides_left and self._lost_since is None

    def busy_seconds(self) -> float:
        """Return the time that the actor was trained so far."""
        return self._sides[0].busy_seconds()

    def lost_seconds(self) -> float:
        """Return the time that it was down so far."""
        since = self._lost_since
        return self._lost_seconds + (0.0 if since is None else self._calendar.now - since)

    def consider(self) -> None:
        """Start a batch or minibatch if enough is ready."""
        if self.waits and self._coordinator.num_ready >= self._part_size:
            self._sides_left = len(self._sides)
            self._batch += self._coordinator.take(self._part_size)
            self._coordinator.admit_blocked()
            is_last = self._parts_done + 1 == self._num_parts
            for side in self._sides:
                side.begin(extra_seconds=self._spec.publish_seconds if is_last else 0.0)

    def lose(self, *, seconds: float) -> None:
        """Go down, and come back after so long at the last checkpoint."""
        if self._lost_since is not None:
            return
        self._lost_since = self._calendar.now
        self._sides_left = 0
        for side in self._sides:
            side.stop()
        self._calendar.after(seconds, self._recover)

    def _finish_side(self) -> None:
        self._sides_left -= 1
        if self._sides_left:
            return
        self._parts_done += 1
        if self._parts_done < self._num_parts:
            self._coordinator.admit_blocked()
            self.consider()
        else:
            self._commit()

    def _commit(self) -> None:
        batch, self._batch, self._parts_done = self._batch, [], 0
        ages = self._coordinator.ages(batch)
        self._coordinator.commit(batch)
        self._publish(self._coordinator.version)
        self.on_step(ages)
        self._coordinator.resume()
        self.consider()

    def _recover(self) -> None:
        version = self._coordinator.version
        every = self._spec.checkpoint_every_steps
        checkpoint = version // every * every
        handed, self._batch, self._parts_done = self._batch, [], 0
        self._lost_seconds, self._lost_since = self.lost_seconds(), None
        self.num_lost_steps += version - checkpoint
        self._coordinator.rewind(checkpoint, handed=handed)
        self._publish(checkpoint)
        self._coordinator.resume()
        self.consider()


def _ignore_step(ages: list[int]) -> None:
    """Ignore a version."""
