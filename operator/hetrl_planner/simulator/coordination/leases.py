"""Leases of prompts: prompts in line, replicas that wait for them, leases that end early.

``RunLedger`` limits their number; the coordinator handles generated trajectories.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heapreplace

from hetrl_planner.simulator.coordination.deadlines import Deadlines
from hetrl_planner.simulator.coordination.ledger import RunLedger
from hetrl_planner.simulator.events.calendar import Calendar
from hetrl_planner.simulator.events.trajectory import LeaseEnd, PromptGroup, Trajectory
from hetrl_planner.simulator.pipeline.pipeline import Pipeline
from hetrl_planner.simulator.serving.replica import Replica


class Leases:
    """Leases of prompts, granted one by one or as whole new groups."""

    def __init__(
        self,
        calendar: Calendar,
        pipeline: Pipeline,
        ledger: RunLedger,
        *,
        lengths: Iterator[int],
    ) -> None:
        """Start with nothing granted; responses have the given lengths, in tokens."""
        self._calendar = calendar
        self._ledger = ledger
        self._group_size = pipeline.group_size
        self._lease_seconds = pipeline.lease_seconds
        self._leases_groups = pipeline.leases_groups
        self._lengths = lengths
        self._deadlines = (
            None
            if pipeline.renews_leases
            else Deadlines(
                calendar,
                lease_seconds=pipeline.lease_seconds,
                leased=ledger.leased,
                expire=self.release,
            )
        )
        self._prompts: deque[PromptGroup] = deque()
        self._waiting: dict[Replica, None] = {}
        self._will_serve = False

    # Calls of replicas

    def request(self, replica: Replica) -> None:
        """Give a replica work for its free places, now or as soon as the bound allows."""
        wanted = replica.num_free()
        if not wanted:
            return
        left = self._ledger.capacity_of(replica.version)
        left = min(left, wanted)
        while left and (granted := self._grant_next(replica, left)):
            left -= granted
            wanted -= granted
        if wanted:
            self._waiting[replica] = None

    def request_together(self, replica: Replica) -> None:
        """Do the same if many replicas may request work at one moment: they share the capacity."""
        self._waiting[replica] = None
        if not self._will_serve:
            self._will_serve = True
            self._calendar.after(0.0, self._serve_together)

    def lose(self, lost: list[Trajectory]) -> None:
        """Wait out the leases of a replica that went down."""
        self._calendar.after(self._lease_seconds, lambda: self.release(lost))

    def release(self, lost: list[Trajectory]) -> None:
        """End the leases that still run of work that is known to be lost."""
        leased = self._ledger.leased
        self.end_leases([each for each in lost if each in leased], LeaseEnd.EXPIRED)
        self.serve_waiting()

    # Calls of the coordinator

    def requeue(self, group: PromptGroup) -> None:
        """Put a prompt that needs one more trajectory in line."""
        self._prompts.append(group)

    def end_leases(self, trajectories: Iterable[Trajectory], ending: LeaseEnd) -> None:
        """End running leases: requeue their prompts and stop their replicas."""
        by_replica: dict[Replica, list[Trajectory]] = {}
        for trajectory in trajectories:
            replica = self._ledger.end_lease(trajectory, ending)
            self.requeue(trajectory.group)
            by_replica.setdefault(replica, []).append(trajectory)
        for replica, theirs in by_replica.items():
            replica.abort(theirs)

    def serve_waiting(self) -> None:
        """Divide the capacity among replicas with free places, the emptiest first."""
        ledger = self._ledger
        if not self._waiting or not (left := ledger.capacity()):
            return
        able = [
            each for each in self._waiting if each.num_free() and ledger.capacity_of(each.version)
        ]
        line = [(each.fullness, number, each) for number, each in enumerate(able)]
        heapify(line)
        for replica in able:
            replica.work.settle()
        while line and left:
            _, number, replica = line[0]
            granted = self._grant_next(
                replica, min(ledger.capacity_of(replica.version), replica.num_free())
            )
            left -= granted
            if not granted:
                heappop(line)
            elif replica.num_free():
                heapreplace(line, (replica.fullness, number, replica))
            else:
                heappop(line)
                del self._waiting[replica]
        for replica in able:
            replica.work.schedule_next_end()

    def _serve_together(self) -> None:
        self._will_serve = False
        self.serve_waiting()

    def _grant_next(self, replica: Replica, most: int) -> int:
        """Grant the next trajectory or a whole new group; return the number of leases."""
        if most and (self._prompts or not self._leases_groups):
            self._grant(replica)
            return 1
        if most < self._group_size:
            return 0
        for _ in range(self._group_size):
            self._grant(replica)
        return self._group_size

    def _grant(self, replica: Replica) -> None:
        prompts = self._prompts
        if not prompts:
            prompts.extend([PromptGroup()] * self._group_size)
        trajectory = Trajectory(prompts.popleft(), replica.version, next(self._lengths))
        self._ledger.lease(trajectory, replica)
        if self._deadlines is not None:
            self._deadlines.watch(trajectory)
        replica.start(trajectory)
