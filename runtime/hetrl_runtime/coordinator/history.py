"""Between the state of a run and the journal entries that rebuild it."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hetrl_runtime.coordinator.state import RunState
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.trajectory import SampledTrajectory
from hetrl_runtime.wire.values import Ending

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a journal says beside the state."""

    trainer_instance: str = ""
    """The start of the trainer whose history this is."""

    ending: Ending | None = None


def entries(state: RunState, trainer_instance: str) -> Iterator[pb.JournalEntry]:
    """Yield the shortest journal that rebuilds a state."""
    yield pb.JournalEntry(
        epoch_begun=pb.EpochBegun(
            epoch=state.epoch,
            resume=codec.encode_resume(state.resume_point()),
            trainer_instance=trainer_instance,
        )
    )
    for trajectory in state.buffered():
        yield pb.JournalEntry(accepted=codec.encode_trajectory(trajectory))
    for (process, worker_version), ids in state.lent().items():
        yield pb.JournalEntry(
            lease_given=pb.LeaseGiven(
                process=process,
                worker_version=worker_version,
                trajectories=codec.encode_ids(ids),
            )
        )


def replay(state: RunState, journal: Iterable[pb.JournalEntry], *, now: float) -> Recovered:
    """Bring a fresh state to where a journal ends; its leases count from now."""
    trainer_instance, ending, count = "", None, 0
    for count, entry in enumerate(journal, start=1):  # noqa: B007  # how many there were
        match entry.WhichOneof("entry"):
            case "epoch_begun":
                trainer_instance = entry.epoch_begun.trainer_instance
                point = codec.decode_resume(entry.epoch_begun.resume)
                state.begin(point, epoch=entry.epoch_begun.epoch)
            case "ended":
                ending = Ending(reason=entry.ended.reason, message=entry.ended.message)
            case _:
                _apply(state, entry, now=now)
    if count:
        log.info(
            "journal replayed: entries=%d epoch=%d version=%d buffered=%d running=%d",
            count, state.epoch, state.version, state.num_buffered, state.num_running,
        )  # fmt: skip
    return Recovered(trainer_instance=trainer_instance, ending=ending)


def _apply(state: RunState, entry: pb.JournalEntry, *, now: float) -> None:
    match entry.WhichOneof("entry"):
        case "accepted":
            found = codec.decode_trajectory(entry.accepted)
            if isinstance(found, SampledTrajectory):
                state.readmit(found)
        case "lease_given":
            state.lend_again(
                entry.lease_given.process,
                codec.decode_ids(entry.lease_given.trajectories),
                worker_version=entry.lease_given.worker_version,
                now=now,
            )
        case "committed":
            state.commit(
                entry.committed.version,
                consumed=codec.decode_ids(entry.committed.consumed),
                discarded=codec.decode_ids(entry.committed.discarded),
            )
        case "abandoned":
            state.abandon(entry.abandoned.group)
