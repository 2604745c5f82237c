"""Processes that train together come to one meeting, over real sockets."""

import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from torch._C._distributed_c10d import TCPStore

from hetrl_core.launch import Address
from hetrl_runtime.trainer.processes import rendezvous

DEADLINE_SECONDS = 30.0


@pytest.fixture
def address() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return Address(host="127.0.0.1", port=server.getsockname()[1])


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=8) as pool:
        yield pool


def a_leader(pool: ThreadPoolExecutor, address: Address, *, num_ranks: int) -> Future[TCPStore]:
    return pool.submit(
        rendezvous.host, address, num_ranks=num_ranks, deadline_seconds=DEADLINE_SECONDS
    )


def a_follower(pool: ThreadPoolExecutor, address: Address, *, rank: int) -> Future[TCPStore]:
    return pool.submit(rendezvous.join, address, rank=rank, deadline_seconds=DEADLINE_SECONDS)


def test_processes_share_a_store_in_any_order(pool: ThreadPoolExecutor, address: Address) -> None:
    followers = [a_follower(pool, address, rank=rank) for rank in (2, 1)]
    leader = a_leader(pool, address, num_ranks=3).result()

    leader.set("said", "hello")

    assert [each.result().get("said") for each in followers] == [b"hello", b"hello"]


def test_restarted_process_skips_a_meeting_that_was_closed_without_it(
    pool: ThreadPoolExecutor, address: Address
) -> None:
    first = a_leader(pool, address, num_ranks=2)
    a_follower(pool, address, rank=1).result()
    store = first.result()
    store.set("leader", "has not noticed")

    again = a_follower(pool, address, rank=1)
    # Until it has looked in, under another name than that with which the meeting was closed.
    while store.get("came/1") == store.get("closed"):
        pass
    del first, store  # the leader ends
    following = a_leader(pool, address, num_ranks=2).result()
    following.set("leader", "the next")

    assert again.result().get("leader") == b"the next"


def test_process_that_dies_while_waiting_is_replaced_by_its_restart(
    pool: ThreadPoolExecutor, address: Address
) -> None:
    leader = a_leader(pool, address, num_ranks=3)
    dead = TCPStore(address.host, address.port, is_master=False, wait_for_workers=False)
    dead.set("came/1", "its first life")
    del dead

    again = a_follower(pool, address, rank=1)
    look = TCPStore(address.host, address.port, is_master=False, wait_for_workers=False)
    while look.get("came/1") == b"its first life":
        pass
    last = a_follower(pool, address, rank=2)

    leader.result().set("said", "all are here")
    assert {each.result().get("said") for each in (again, last)} == {b"all are here"}


def test_missing_processes_are_named(address: Address) -> None:
    with ThreadPoolExecutor(max_workers=1) as pool:
        leader = pool.submit(rendezvous.host, address, num_ranks=4, deadline_seconds=5.0)
        second = TCPStore(address.host, address.port, is_master=False, wait_for_workers=False)
        second.set("came/2", "alone")

        with pytest.raises(
            RuntimeError, match=r"of 4 training processes, 1, 3 did not come within 5 s"
        ):
            leader.result()


def test_wait_without_a_leader_ends_with_a_reason(address: Address) -> None:
    with pytest.raises(
        RuntimeError, match=rf"no meeting of the training processes at {address} within 0\.5 s"
    ):
        rendezvous.join(address, rank=1, deadline_seconds=0.5)
