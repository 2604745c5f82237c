"""One of several parallel trainings, on its own GPUs or taking turns on shared ones.

The trainer starts it, and continues when all are done.
"""

from collections.abc import Sequence

from hetrl_planner.simulator.events.calendar import Action, Alarm, Calendar
from hetrl_planner.simulator.serving.gpus import TRAINING, GpuTurns


class TrainingSide:
    """A training that waits for its GPUs, trains for its time, and releases them."""

    def __init__(
        self, calendar: Calendar, *, seconds: float, gpus: Sequence[GpuTurns], on_done: Action
    ) -> None:
        self._calendar = calendar
        self._seconds = seconds
        self._gpus = gpus
        self._on_done = on_done
        self._extra_seconds = 0.0
        self._num_turns = 0
        self._began_at: float | None = None
        self._alarm = Alarm(self._finish)
        self._busy_seconds = 0.0

    def busy_seconds(self) -> float:
        """Return the time that it trained so far."""
        began_at = self._began_at
        return self._busy_seconds + (0.0 if began_at is None else self._calendar.now - began_at)

    def begin(self, *, extra_seconds: float = 0.0) -> None:
        """Train as soon as it has every set of shared GPUs; the extra time follows."""
        self._extra_seconds = extra_seconds
        self._advance()

    def stop(self) -> None:
        """Release everything, as the trainer is lost."""
        self._alarm.cancel()
        for gpus in self._gpus[self._num_turns :]:
            gpus.withdraw(TRAINING)
        self._release()

    def _advance(self) -> None:
        """Request sets of GPUs one by one, in an order common to all, to avoid deadlocks."""
        if self._num_turns < len(self._gpus):
            self._gpus[self._num_turns].enter(TRAINING, self._turn_taken)
            return
        self._began_at = self._calendar.now
        self._calendar.set(self._alarm, self._seconds + self._extra_seconds)

    def _turn_taken(self) -> None:
        self._num_turns += 1
        self._advance()

    def _finish(self) -> None:
        self._release()
        self._on_done()

    def _release(self) -> None:
        self._busy_seconds, self._began_at = self.busy_seconds(), None
        num_turns, self._num_turns = self._num_turns, 0
        for gpus in self._gpus[:num_turns]:
            gpus.leave()
