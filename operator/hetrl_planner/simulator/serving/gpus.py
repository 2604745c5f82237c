"""GPUs that several tasks share: one task at a time, generation whenever no other wants them.

Training goes before scoring. Generation is interrupted for either; a scoring server finishes
the trajectory that it has.
"""

from collections import deque

from hetrl_planner.simulator.events.calendar import Action, Calendar
from hetrl_planner.simulator.events.paced import PacedWork
from hetrl_planner.simulator.events.trajectory import Trajectory
from hetrl_planner.simulator.pipeline.pipeline import SharedGpus

GENERATION = ""
TRAINING = "training"


class GpuTurns:
    """The turns of tasks on one set of GPUs."""

    def __init__(self, calendar: Calendar, spec: SharedGpus) -> None:
        self._calendar = calendar
        self._switch_seconds = spec.switch_seconds
        self._residents: list[PacedWork[Trajectory]] = []
        self._line: deque[tuple[str, Action]] = deque()
        self._task = GENERATION
        self._is_switching = False

    @property
    def is_wanted_for_training(self) -> bool:
        """Whether the trainer waits for its turn."""
        return any(task == TRAINING for task, _ in self._line)

    def add_generation(self, work: PacedWork[Trajectory]) -> None:
        """Run generation here whenever nothing else runs."""
        self._residents.append(work)

    def enter(self, task: str, then: Action) -> None:
        """Wait for a turn, then call back."""
        self._line.append((task, then))
        if self._task == GENERATION and not self._is_switching:
            for work in self._residents:
                work.hold()
            self._switch()

    def withdraw(self, task: str) -> None:
        """Leave the line; if it is empty, the next switch gives generation the GPUs."""
        self._line = deque(each for each in self._line if each[0] != task)

    def leave(self) -> None:
        """End a turn; without a next one, generation continues."""
        self._task = GENERATION
        self._switch()

    def _switch(self) -> None:
        self._is_switching = True
        self._calendar.after(self._switch_seconds, self._hand_over)

    def _hand_over(self) -> None:
        self._is_switching = False
        if not self._line:
            for work in self._residents:
                work.release()
            return
        turn = next((each for each in self._line if each[0] == TRAINING), self._line[0])
        self._line.remove(turn)
        self._task = turn[0]
        turn[1]()
