"""Demand of a run for inference workers: for which tasks, since when, and who serves them."""

from hetrl_core.launch import Launch
from hetrl_core.task import Task
from hetrl_runtime.coordinator.rules.members import Members
from hetrl_runtime.coordinator.rules.state import RunState


class InferenceDemand:
    """The tasks that rollouts need inference workers for, and the workers' signs of life."""

    def __init__(self, launch: Launch, state: RunState, members: Members, *, now: float) -> None:
        self._has_reward_model = launch.data.model is not None
        self._state = state
        self._members = members
        self._begun_at = now

    def begin(self, *, now: float) -> None:
        """Count the wait for workers from now on."""
        self._begun_at = now

    @property
    def needed_since(self) -> float | None:
        """Since when workers are needed; None where no task needs any."""
        return self._begun_at if self._tasks else None

    @property
    def seen_at(self) -> float | None:
        """When a worker was last heard of for each task; None where one never was."""
        times = [self._members.seen_at(task) for task in self._tasks]
        known = [each for each in times if each is not None]
        return min(known) if known and len(known) == len(times) else None

    @property
    def is_lacking(self) -> bool:
        """Whether a task has no worker."""
        return not all(map(self._members.num, self._tasks))

    @property
    def _tasks(self) -> tuple[Task, ...]:
        return (
            *((Task.REFERENCE_INFERENCE,) if self._state.needs_reference else ()),
            *((Task.REWARD_INFERENCE,) if self._has_reward_model else ()),
        )
