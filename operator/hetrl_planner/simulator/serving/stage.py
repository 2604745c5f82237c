"""An inference stage: servers that score trajectories one by one, in the order of their ends.

``Scoring`` tracks the stages that a trajectory still needs.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush

from hetrl_planner.simulator.events.calendar import Calendar
from hetrl_planner.simulator.events.trajectory import PromptGroup, Trajectory
from hetrl_planner.simulator.pipeline.pipeline import InferenceStage
from hetrl_planner.simulator.serving.gpus import GpuTurns


class ScoringStage:
    """The servers of one stage and the line before them."""

    def __init__(
        self,
        calendar: Calendar,
        spec: InferenceStage,
        *,
        gpus: GpuTurns | None,
    ) -> None:
        self._calendar = calendar
        self._gpus = gpus
        self._line: deque[Trajectory] = deque()
        # The fastest first.
        self._free = sorted(spec.server_seconds)
        self._has_turn = gpus is None
        self._is_waiting_for_turn = False
        self.spec = spec
        self.on_scored: Callable[[Trajectory], None] = _ignore_score
        """Set by ``Scoring``."""
        self.busy_seconds = 0.0
        """Of all servers together."""

    def submit(self, trajectory: Trajectory) -> None:
        """Score a trajectory as soon as a server is free."""
        self._line.append(trajectory)
        self._serve()

    def _serve(self) -> None:
        if not self._has_turn:
            self._want_turn()
            return
        if self._gpus and self._gpus.is_wanted_for_training:
            return
        while self._line and self._free:
            server_seconds = heappop(self._free)
            self._calendar.after(
                server_seconds, partial(self._finish, self._line.popleft(), server_seconds)
            )

    def _finish(self, trajectory: Trajectory, server_seconds: float) -> None:
        heappush(self._free, server_seconds)
        self.busy_seconds += server_seconds
        # First, so that a trainer whose batch this completes is in line for the next turn.
        self.on_scored(trajectory)
        self._serve()
        if self._gpus and len(self._free) == self.spec.num_servers:
            self._has_turn = False
            self._gpus.leave()
            if self._line:
                self._want_turn()

    def _want_turn(self) -> None:
        if self._gpus and not self._is_waiting_for_turn:
            self._is_waiting_for_turn = True
            self._gpus.enter(self.spec.name, self._take_turn)

    def _take_turn(self) -> None:
        self._is_waiting_for_turn = False
        self._has_turn = True
        self._serve()


class Scoring:
    """All stages; each finished trajectory passes through every one in parallel."""

    def __init__(
        self,
        stages: Sequence[ScoringStage],
        *,
        batch_size: int,
        group_size: int,
        num_waiting: Callable[[], int],
        on_scored: Callable[[Trajectory], None],
    ) -> None:
        """Start with nothing to score; ``num_waiting`` counts all that is not in training."""
        self._eager = [each for each in stages if not each.spec.waits_for_batch]
        self._patient = [each for each in stages if each.spec.waits_for_batch]
        self._held: dict[PromptGroup, list[Trajectory]] = {}
        self._num_groups = batch_size // group_size
        self._group_size = group_size
        self._num_waiting = num_waiting
        for stage in stages:
            stage.on_scored = self.scored
        self._on_scored = on_scored

    def submit(self, trajectory: Trajectory) -> None:
        """Score a finished trajectory in every stage."""
        trajectory.num_unscored = len(self._eager) + len(self._patient)
        for stage in self._eager:
            stage.submit(trajectory)
        if self._patient:
            self._held.setdefault(trajectory.group, []).append(trajectory)
            if len(trajectory.group.accepted) == self._group_size:
                self._release()

    def scored(self, trajectory: Trajectory) -> None:
        """Record that one stage is done with a trajectory."""
        trajectory.num_unscored -= 1
        if not trajectory.num_unscored:
            self._on_scored(trajectory)

    def _release(self) -> None:
        """Release as many whole groups as fill a batch; dropped trajectories are not scored."""
        whole = [each for each in self._held if len(each.accepted) == self._group_size]
        held = sum(len(each.accepted) for each in self._held)
        let_through = (self._num_waiting() - held) // self._group_size
        missing = self._num_groups - let_through % self._num_groups
        if len(whole) < missing:
            return
        wanted = [
            trajectory
            for group in whole[:missing]
            for trajectory in self._held.pop(group)
            if trajectory in group.accepted
        ]
        for stage in self._patient:
            for trajectory in wanted:
                stage.submit(trajectory)


def _ignore_score(trajectory: Trajectory) -> None:
    """Ignore a scored trajectory."""
