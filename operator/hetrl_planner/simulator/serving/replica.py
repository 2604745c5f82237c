"""A rollout replica: places, a continuous batch, the weights it serves, and when it stops.

It asks for leases whenever a place is free; whether it gets any is not its to decide.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Protocol

from hetrl_planner.simulator.events.calendar import Alarm, Calendar
from hetrl_planner.simulator.events.paced import PacedWork
from hetrl_planner.simulator.events.trajectory import Trajectory
from hetrl_planner.simulator.pipeline.pipeline import RolloutGroup


class WorkSource(Protocol):
    """The source of leased prompts, as a replica needs it."""

    def request(self, replica: "Replica") -> None:
        """Give the replica work for its free places, now or as soon as the bound allows."""

    def request_together(self, replica: "Replica") -> None:
        """Do the same if many replicas may request work at one moment: they share the capacity."""

    def lose(self, lost: list[Trajectory]) -> None:
        """Note that trajectories were lost, before their leases end."""

    def release(self, lost: list[Trajectory]) -> None:
        """End the leases of lost trajectories."""


class Replica:
    """One replica of a group."""

    def __init__(
        self,
        calendar: Calendar,
        group: RolloutGroup,
        *,
        is_interruptible: bool,
        work_source: WorkSource,
        deliver: Callable[[Trajectory], None],
    ) -> None:
        """Serve version 0 and run nothing; each finished trajectory is delivered."""
        self._calendar = calendar
        self._work_source = work_source
        self._deliver = deliver
        self._is_interruptible = is_interruptible
        self._prefill_seconds = group.prefill_seconds
        self._upload_seconds = group.upload_seconds
        self._recompute_seconds = group.recompute_seconds_per_token
        # Marks from which each version samples.
        self._marks = [0.0]
        self._versions = [0]
        self._wanted: tuple[int, float] | None = None
        self._loading: int | None = None
        self._loaded = Alarm(self._serve_loaded)
        self._lost_since: float | None = None
        self._lost_seconds = 0.0
        self._lost_work: list[Trajectory] = []
        self.group = group
        self.num_places = group.num_places
        self.num_held_places = 0
        """Places of finished trajectories for which the queue has no room."""
        self.version = 0
        self.work: PacedWork[Trajectory] = PacedWork(
            calendar, (0.0, *group.token_seconds), self._finish
        )
        self.discarded_tokens = 0.0
        """Of trajectories that were stopped before their end."""

    @property
    def is_lost(self) -> bool:
        """Whether it is down."""
        return self._lost_since is not None

    def num_free(self) -> int:
        """Return its places for new work."""
        if self._wanted is not None or self._loading is not None or self._lost_since is not None:
            return 0
        taken = len(self.work.ends) + self.num_held_places
        return self.num_places - taken if taken < self.num_places else 0

    @property
    def fullness(self) -> float:
        """Share of its places that run something."""
        return len(self.work.ends) / self.num_places

    def lost_seconds(self) -> float:
        """Return the time that it was down so far."""
        since = self._lost_since
        return self._lost_seconds + (0.0 if since is None else self._calendar.now - since)

    def start(self, trajectory: Trajectory) -> None:
        """Begin a trajectory; ``work`` is settled before and looks ahead after."""
        if self._prefill_seconds:
            self.work.stall(self._prefill_seconds)
        trajectory.start_mark = self.work.add(trajectory, trajectory.num_tokens)

    def abort(self, trajectories: Iterable[Trajectory]) -> None:
        """Stop trajectories whose leases have ended; those that do not run are left alone."""
        self.work.settle()
        gone = set(trajectories)
        self._discard(each for each in self.work.members() if each in gone)
        self.work.remove(gone)
        self._continue()
        self.work.schedule_next_end()

    def load(self, version: int, *, seconds: float) -> None:
        """Take new weights: between two tokens, or when all that runs has ended."""
        if self._lost_since is None:
            self._wanted = (version, seconds)
            self._begin_load()

    def lose(self) -> None:
        """Go down with everything that runs."""
        self.work.settle()
        self._lost_since = self._calendar.now
        self._wanted = self._loading = None
        self._loaded.cancel()
        self.work.is_stopped = False
        self._lost_work = self.work.clear()
        self._discard(self._lost_work)
        self.work.schedule_next_end()
        self._work_source.lose(self._lost_work)

    def recover(self, version: int, *, seconds: float) -> None:
        """Restart, report lost trajectories, and load the newest weights of the region."""
        self.work.settle()
        self._lost_seconds = self.lost_seconds()
        self._lost_since = None
        self.load(version, seconds=seconds)
        self._work_source.release(self._lost_work)

    def _finish(self, done: list[Trajectory]) -> None:
        newest, since = self.version, self._marks[-1]
        for trajectory in done:
            mark = trajectory.start_mark
            trajectory.versions = (newest if mark >= since else self._version_at(mark), newest)
        if not self._upload_seconds:
            self._deliver_all(done)
            return
        self._calendar.after(self._upload_seconds, lambda: self._deliver_uploaded(done))
        self._begin_load()

    def _deliver_uploaded(self, done: list[Trajectory]) -> None:
        self.work.settle()
        self._deliver_all(done)
        self.work.schedule_next_end()

    def _deliver_all(self, done: list[Trajectory]) -> None:
        deliver = self._deliver
        for trajectory in done:
            deliver(trajectory)
        self._continue()

    def _continue(self) -> None:
        """Use free places: to load waiting weights, else for new work."""
        if self._wanted is not None:
            self._begin_load()
        else:
            self._work_source.request(self)

    def _version_at(self, mark: float) -> int:
        """Return the version that sampled the token after a mark."""
        return self._versions[bisect_right(self._marks, mark) - 1]

    def _begin_load(self) -> None:
        can_stop = self._is_interruptible or not len(self.work.ends)
        if self._wanted is None or self._loading is not None or not can_stop:
            return
        (self._loading, seconds), self._wanted = self._wanted, None
        self.work.settle()
        if self._recompute_seconds:
            running = self.work.members()
            cached_tokens = len(running) * self.work.mark - sum(each.start_mark for each in running)
            seconds += self._recompute_seconds * cached_tokens
        self.work.is_stopped = True
        self.work.stall(seconds)
        self.work.schedule_next_end()
        self._calendar.set(self._loaded, seconds)

    def _serve_loaded(self) -> None:
        """Serve the loaded weights; newer ones may wait already."""
        assert self._loading is not None
        self.work.settle()
        self.work.is_stopped = False
        self.version, self._loading = self._loading, None
        self._marks.append(self.work.mark)
        self._versions.append(self.version)
        self.work.schedule_next_end()
        if self._wanted is not None:
            self._begin_load()
        else:
            self._work_source.request_together(self)

    def _discard(self, stopped: Iterable[Trajectory]) -> None:
        mark = self.work.mark
        self.discarded_tokens += sum(mark - each.start_mark for each in stopped)
