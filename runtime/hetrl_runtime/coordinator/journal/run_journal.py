"""The journal of a run as its coordinator writes it: one method for each kind of event.

Each method that writes has a fault point before and after; ``history`` defines the entries.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from hetrl_core.job.identity import UNKNOWN, Value
from hetrl_runtime.coordinator.journal import history
from hetrl_runtime.coordinator.journal.journal import Journal
from hetrl_runtime.coordinator.rules.state import RunState
from hetrl_runtime.process.faults import FaultPoints, Point
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import Ending, StepReport


class RunJournal(Journal):
    """A journal of leases, deliveries, versions, epochs and the end, for a run on some data."""

    def __init__(self, path: Path, *, data: Value = UNKNOWN) -> None:
        super().__init__(path)
        self._data = data

    def add_accepted(self, trajectory: DeliveredTrajectory) -> None:
        """Add an accepted trajectory, to be written with the other deliveries."""
        self.append(history.accepted(trajectory))

    def add_abandoned(self, group: int) -> None:
        """Add a prompt that was given up, to be written with the deliveries."""
        self.append(history.abandoned(group))

    @FaultPoints(before=Point.DELIVERY_ACCEPTED, after=Point.DELIVERY_WRITTEN)
    def write_deliveries(self) -> None:
        """Hand what deliveries have added to the operating system; it survives this process."""
        self.flush()

    @FaultPoints(before=Point.LEASE_DECIDED, after=Point.LEASE_WRITTEN)
    def write_lease(
        self, process: str, ids: Iterable[TrajectoryId], *, worker_version: int
    ) -> None:
        """Write that trajectories were leased to a worker."""
        self.append(history.lease_given(process, ids, worker_version=worker_version))
        self.flush()

    @FaultPoints(before=Point.COMMIT_DECIDED, after=Point.COMMIT_WRITTEN)
    def write_commit(
        self,
        version: int,
        *,
        consumed: Sequence[TrajectoryId],
        discarded: Sequence[TrajectoryId],
        report: StepReport,
    ) -> None:
        """Write a new version, and what it was trained on."""
        self.append(
            history.committed(version, consumed=consumed, discarded=discarded, report=report)
        )
        self.flush()

    @FaultPoints(after=Point.END_WRITTEN)
    def write_ending(self, ending: Ending) -> None:
        """Write the run's end to the disk."""
        self.append(history.ended(ending))
        self.force()

    @FaultPoints(before=Point.EPOCH_DECIDED, after=Point.EPOCH_REPLACED)
    def begin_epoch(self, state: RunState, trainer_instance: str) -> None:
        """Replace the journal by the state with which an epoch begins."""
        self.replace(history.entries(state, trainer_instance, data=self._data))

    def compact_if_long(self, state: RunState, trainer_instance: str) -> None:
        """Begin to replace a long journal by its outcome, while it goes on."""
        if self.is_long:
            self.compact(history.entries(state, trainer_instance, data=self._data))
