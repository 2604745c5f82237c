"""The trainer: takes a batch when there is one, trains, publishes a version; is lost and returns.

What it may take is the coordinator's to say; how versions travel is the routes'.
"""

from collections.abc import Callable, Sequence

from hetrl_planner.simulator.calendar import Alarm, Calendar
from hetrl_planner.simulator.coordinator import Coordinator
from hetrl_planner.simulator.gpus import TRAINING, GpuTurns
from hetrl_planner.simulator.pipeline import TrainerSpec
from hetrl_planner.simulator.trajectory import Trajectory


class Trainer:
    """One trainer, waiting, training or lost."""

    def __init__(
        self,
        calendar: Calendar,
        spec: TrainerSpec,
        coordinator: Coordinator,
        *,
        batch_size: int,
        gpus: Sequence[GpuTurns],
        publish: Callable[[int], None],
    ) -> None:
        """Wait for a batch.

        ``on_step`` is set by whoever measures: it is told the staleness of each trajectory
        of a batch when its version is done.
        """
        self._calendar = calendar
        self._spec = spec
        self._coordinator = coordinator
        self._gpus = gpus
        self.on_step: Callable[[list[int]], None] = _nobody_measures
        self._publish = publish
        self._num_parts = spec.minibatches if spec.streams_minibatches else 1
        self._part_size = batch_size // self._num_parts
        self._parts_done = 0
        self._batch: list[Trajectory] = []
        self._is_busy = False
        self._is_lost = False
        self._num_turns = 0
        self._began_at = 0.0
        self._done = Alarm(calendar, self._finish_part)
        self._busy_seconds = 0.0
        self.lost_seconds = 0.0
        self.num_lost_steps = 0
        """Versions that were rewound."""

    @property
    def waits(self) -> bool:
        """Whether it would take more work now."""
        return not self._is_busy and not self._is_lost

    def busy_seconds(self) -> float:
        """Return the time that it trained so far."""
        current = self._calendar.now - self._began_at if self._is_training else 0.0
        return self._busy_seconds + current

    def consider(self) -> None:
        """Begin with what is ready, if that is enough."""
        if self.waits and self._coordinator.num_ready >= self._part_size:
            self._is_busy = True
            self._batch += self._coordinator.take(self._part_size)
            self._coordinator.admit_blocked()
            self._take_turns()

    def lose(self, *, seconds: float) -> None:
        """Go down, and come back after so long at the last checkpoint."""
        if self._is_lost:
            return
        self._busy_seconds = self.busy_seconds()
        self._is_lost = True
        self._is_busy = False
        self._done.call_off()
        for gpus in self._gpus[self._num_turns :]:
            gpus.withdraw(TRAINING)
        self._leave_turns()
        self.lost_seconds += seconds
        self._calendar.after(seconds, self._come_back)

    @property
    def _is_training(self) -> bool:
        return self._is_busy and self._num_turns == len(self._gpus)

    def _take_turns(self) -> None:
        """Get every set of shared GPUs, one after the other in a fixed order: no deadlock."""
        if self._num_turns < len(self._gpus):
            self._gpus[self._num_turns].enter(TRAINING, self._turn_taken)
            return
        self._began_at = self._calendar.now
        is_last = self._parts_done + 1 == self._num_parts
        publishing = self._spec.publish_seconds if is_last else 0.0
        self._done.set(self._spec.step_seconds / self._num_parts + publishing)

    def _turn_taken(self) -> None:
        self._num_turns += 1
        self._take_turns()

    def _leave_turns(self) -> None:
        for gpus in self._gpus[: self._num_turns]:
            gpus.leave()
        self._num_turns = 0

    def _finish_part(self) -> None:
        self._busy_seconds += self._calendar.now - self._began_at
        self._began_at = self._calendar.now
        self._is_busy = False
        self._parts_done += 1
        if self._parts_done < self._num_parts:
            # The GPUs stay: the next part is usually there already.
            self.consider()
            return
        self._commit()

    def _commit(self) -> None:
        batch, self._batch, self._parts_done = self._batch, [], 0
        ages = self._coordinator.ages(batch)
        self._coordinator.commit(batch)
        self._leave_turns()
        self._publish(self._coordinator.version)
        self.on_step(ages)
        self._coordinator.admit_blocked()
        self._coordinator.serve_waiting()
        self.consider()

    def _come_back(self) -> None:
        version = self._coordinator.version
        every = self._spec.checkpoint_every_steps
        checkpoint = version // every * every
        handed, self._batch, self._parts_done = self._batch, [], 0
        self._is_lost = False
        self.num_lost_steps += version - checkpoint
        self._coordinator.rewind(checkpoint, handed=handed)
        self._publish(checkpoint)
        self._coordinator.admit_blocked()
        self._coordinator.serve_waiting()
        self.consider()


def _nobody_measures(ages: list[int]) -> None:
    """Let a version pass."""
