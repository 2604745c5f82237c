"""Rendezvous of the processes of a gang at their leader, with one instance of each.

A restarted process may find the store of a leader that has not noticed its failure yet. So a
meeting is closed when all have come, with their names: a process that finds one closed without it
waits for the next. ``process_groups`` forms the groups then.
"""

import time
import uuid
from datetime import timedelta

import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from hetrl_core.launch import Address

_CLOSED = "closed"
_AGAIN_SECONDS = 0.2


def host(address: Address, *, num_ranks: int, deadline_seconds: float) -> TCPStore:
    """Call a meeting, and close it when all have come; for rank 0.

    Raises:
        RuntimeError: they did not all come in time; the message names who did not.
    """
    deadline = timedelta(seconds=deadline_seconds)
    store = TCPStore(
        address.host, address.port, is_master=True, timeout=deadline, wait_for_workers=False
    )
    ranks = range(1, num_ranks)
    try:
        store.wait([_came(rank) for rank in ranks], deadline)
    except dist.DistStoreError as error:
        missing = [str(rank) for rank in ranks if not store.check([_came(rank)])]
        raise RuntimeError(
            f"of {num_ranks} training processes, {', '.join(missing)} did not come "
            f"within {deadline_seconds:g} s"
        ) from error
    store.set(_CLOSED, " ".join(store.get(_came(rank)).decode() for rank in ranks))
    return store


def join(address: Address, *, rank: int, deadline_seconds: float) -> TCPStore:
    """Come to a meeting that is not closed yet, waiting for one; for every other rank.

    Raises:
        RuntimeError: there was none in time.
    """
    me = uuid.uuid4().hex
    ends_at = time.monotonic() + deadline_seconds
    while (left_seconds := ends_at - time.monotonic()) > 0:
        if store := _joined(address, rank, me, deadline=timedelta(seconds=left_seconds)):
            return store
        time.sleep(_AGAIN_SECONDS)
    raise RuntimeError(
        f"no meeting of the training processes at {address} within {deadline_seconds:g} s"
    )


def _joined(address: Address, rank: int, me: str, *, deadline: timedelta) -> TCPStore | None:
    """Return the store of the meeting there is, if it was closed with this process in it."""
    try:
        store = TCPStore(
            address.host, address.port, is_master=False, timeout=deadline, wait_for_workers=False
        )
        store.set(_came(rank), me)
        store.wait([_CLOSED], deadline)
        return store if me in store.get(_CLOSED).decode().split() else None
    except dist.DistError:
        # Its leader ended, or the time did.
        return None


def _came(rank: int) -> str:
    return f"came/{rank}"
