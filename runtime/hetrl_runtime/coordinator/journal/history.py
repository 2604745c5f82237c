"""Conversion between the state of a run and the journal entries that rebuild it."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from hetrl_core.job.identity import UNKNOWN, Value
from hetrl_runtime.coordinator.rules.commits import CommitRefused, Committed
from hetrl_runtime.coordinator.rules.state import RunState
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.validation import PROTOCOL_LIMITS, WireLimits
from hetrl_runtime.wire.values import Ending, StepReport

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Contents of a journal other than the state."""

    trainer_instance: str = ""
    """The start of the trainer whose history this is."""

    data: Value = UNKNOWN
    """The data that the history is of."""

    ending: Ending | None = None
    newest: "Recorded | None" = None
    """The last commit of the epoch, if there was one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A commit as a journal tells of it, for a report that may have missed it."""

    done: Committed
    num_discarded: int
    report: StepReport


def entries(
    state: RunState, trainer_instance: str, *, data: Value = UNKNOWN
) -> Iterator[pb.JournalEntry]:
    """Return the shortest journal that rebuilds a state as it is now; a thread may read it."""
    begun = pb.EpochBegun(
        epoch=state.epoch,
        resume=codec.encode_resume(state.resume_point()),
        trainer_instance=trainer_instance,
        needs_reference=state.needs_reference,
        data=codec.encode_data(data),
    )
    buffered, leased = state.buffered(), state.leased()
    return chain(
        (pb.JournalEntry(epoch_begun=begun),),
        (accepted(each) for each in buffered),
        (batch_broke(state.broke_once),) if state.broke_once else (),
        (
            lease_given(process, ids, worker_version=worker_version)
            for (process, worker_version), ids in leased.items()
        ),
    )


def accepted(trajectory: DeliveredTrajectory) -> pb.JournalEntry:
    """Return the entry of an accepted trajectory."""
    return pb.JournalEntry(accepted=trajectory.data)


def lease_given(
    process: str, ids: Iterable[TrajectoryId], *, worker_version: int
) -> pb.JournalEntry:
    """Return the entry of trajectories leased to a worker."""
    return pb.JournalEntry(
        lease_given=pb.LeaseGiven(
            process=process, worker_version=worker_version, trajectories=codec.encode_ids(ids)
        )
    )


def committed(
    version: int,
    *,
    consumed: Iterable[TrajectoryId],
    discarded: Iterable[TrajectoryId],
    report: StepReport,
) -> pb.JournalEntry:
    """Return the entry of a new version and what it was trained on, in one."""
    return pb.JournalEntry(
        committed=pb.VersionCommitted(
            version=version,
            consumed=codec.encode_ids(consumed),
            discarded=codec.encode_ids(discarded),
            report=codec.encode_report(report),
        )
    )


def batch_broke(ids: Iterable[TrajectoryId]) -> pb.JournalEntry:
    """Return the entry of trajectories with which a trainer ended."""
    return pb.JournalEntry(batch_broke=pb.BatchBroke(trajectories=codec.encode_ids(ids)))


def abandoned(group: int) -> pb.JournalEntry:
    """Return the entry of a prompt that was given up."""
    return pb.JournalEntry(abandoned=pb.GroupAbandoned(group=group))


def ended(ending: Ending) -> pb.JournalEntry:
    """Return the entry of the run's end."""
    return pb.JournalEntry(ended=pb.RunEnded(reason=ending.reason, message=ending.message))


def replay(
    state: RunState,
    journal: Iterable[pb.JournalEntry],
    *,
    now: float,
    limits: WireLimits = PROTOCOL_LIMITS,
) -> Recovered:
    """Bring a fresh state to where a journal ends; its leases count from now.

    A trajectory beyond the limits, which an earlier release accepted, is generated again.
    """
    trainer_instance, data, ending, newest, count = "", UNKNOWN, None, None, 0
    for count, entry in enumerate(journal, start=1):  # noqa: B007  # how many there were
        match entry.WhichOneof("entry"):
            case "epoch_begun":
                begun, newest = entry.epoch_begun, None
                trainer_instance = begun.trainer_instance
                data = codec.decode_data(begun.data)
                state.begin(
                    codec.decode_resume(begun.resume),
                    epoch=begun.epoch,
                    needs_reference=begun.needs_reference,
                )
            case "committed":
                newest = _commit(state, entry.committed)
            case "ended":
                ending = Ending(reason=entry.ended.reason, message=entry.ended.message)
            case _:
                _apply(state, entry, now=now, limits=limits)
    if count:
        log.info(
            "journal replayed: entries=%d epoch=%d version=%d buffered=%d running=%d",
            count,
            state.epoch,
            state.version,
            state.num_buffered,
            state.num_running,
        )
    return Recovered(trainer_instance=trainer_instance, data=data, ending=ending, newest=newest)


def _commit(state: RunState, entry: pb.VersionCommitted) -> Recorded | None:
    discarded = codec.decode_ids(entry.discarded)
    done = state.commit(
        entry.version, consumed=codec.decode_ids(entry.consumed), discarded=discarded
    )
    if isinstance(done, CommitRefused):
        return None
    report = codec.decode_report(entry.report)
    return Recorded(done=done, num_discarded=len(discarded), report=report)


def _apply(state: RunState, entry: pb.JournalEntry, *, now: float, limits: WireLimits) -> None:
    match entry.WhichOneof("entry"):
        case "accepted":
            found = codec.receive_trajectory(entry.accepted, limits)
            if isinstance(found, DeliveredTrajectory):
                state.readmit(found)
            else:
                log.warning("trajectory dropped: id=%s reason=%s", found.id, found.error)
        case "lease_given":
            state.restore_leases(
                entry.lease_given.process,
                codec.decode_ids(entry.lease_given.trajectories),
                worker_version=entry.lease_given.worker_version,
                now=now,
            )
        case "abandoned":
            state.abandon(entry.abandoned.group)
        case "batch_broke":
            state.broke_once |= set(codec.decode_ids(entry.batch_broke.trajectories))
