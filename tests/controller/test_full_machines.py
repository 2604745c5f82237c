"""Machines without room: when they count as such, for whom, and for how long."""

from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot, Machine
from hetrl_operator.cache.informer_cache import LATE_SECONDS, InformerCache
from hetrl_operator.model.observed import FullMachinesSeen, NodesSeen, PodSeen
from hetrl_operator.model.parse import slim_node
from hetrl_operator.planning.full_machines import (
    EXCLUDED_SECONDS,
    SETTLE_SECONDS,
    FullMachines,
)
from hetrl_operator.planning.scheduler_messages import is_about_machine, machine_words
from tests.builders import a_kind
from tests.controller.values import NOW, a_pod, later

FLEET = ClusterSnapshot(
    gpu_kinds=(a_kind("L4"),),
    machines=tuple(
        Machine(name=f"l4-{number}", gpu_kind="L4", num_gpus=8, region="local")
        for number in range(2)
    ),
)
PINNED = "5 node(s) didn't satisfy plugin(s) [NodeAffinity]"


def message(reason: str) -> str:
    """What the default scheduler says of a pod that is pinned to one of six nodes."""
    return (
        f"0/6 nodes are available: {reason}, {PINNED}. no new claims to deallocate, preemption: "
        "0/6 nodes are available: 1 No preemption victims found for incoming pod, 5 Preemption is "
        "not helpful for scheduling."
    )


NO_GPUS = message("1 Insufficient nvidia.com/gpu")


def waiting(said: str = NO_GPUS, *, gpus: int = 4, name: str = "l4-0", **changes: Any) -> PodSeen:
    """A pod that the scheduler cannot bind to the machine that it is pinned to."""
    fields: dict[str, Any] = {
        "is_ready": False,
        "scheduled_at": None,
        "unschedulable_since": NOW,
        "gpus": gpus,
        "waiting_reason": "Unschedulable",
        "waiting_message": said,
        "selected_hostname": name,
        "affinity_nodes": frozenset({name}),
        **changes,
    }
    return a_pod("rollout-l4-0", **fields)


def look(
    full_machines: FullMachines,
    *pods: PodSeen,
    at: float,
    uid: str = "uid-1",
    is_placed: bool = False,
) -> FullMachinesSeen:
    """Observe a job some seconds after the beginning."""
    found: dict[str, list[PodSeen]] = defaultdict(list)
    for pod in pods:
        if not pod.node:
            found[pod.selected_hostname].append(pod)
    return full_machines.observe(uid, pods, found, later(seconds=at), is_placed=is_placed)


def full(pod: PodSeen | None = None, *, at: float = 0.0) -> FullMachines:
    """A room in which a job has found a machine full, its settle time later."""
    full_machines, pod = FullMachines(), pod or waiting()
    look(full_machines, pod, at=at)
    look(full_machines, pod, at=at + SETTLE_SECONDS)
    return full_machines


def gpus(full_machines: FullMachines, uid: str = "uid-1", **held: int) -> dict[str, int]:
    """The GPUs that a job may be planned on, by machine."""
    by_machine = {name.replace("_", "-"): count for name, count in held.items()}
    return {
        each.name: each.num_gpus
        for each in full_machines.without_full(uid, FLEET, by_machine).machines
    }


@pytest.mark.parametrize(
    ("said", "words"),
    [
        pytest.param(NO_GPUS, "1 Insufficient nvidia.com/gpu", id="gpus"),
        pytest.param(
            message("1 Insufficient cpu, 1 Insufficient memory"),
            "1 Insufficient cpu, 1 Insufficient memory",
            id="several",
        ),
        pytest.param(
            f"0/6 nodes are available: 1 Too many pods, {PINNED}.", "1 Too many pods", id="no-tail"
        ),
        pytest.param(
            "0/2 nodes are available: 1 Too many pods, 1 node(s) didn't match Pod's node "
            "affinity/selector. preemption: 0/2 nodes are available: 2 Preemption is not helpful.",
            "1 Too many pods",
            id="selector",
        ),
        pytest.param(
            message("1 node(s) didn't match PersistentVolume's node affinity"),
            "1 node(s) didn't match PersistentVolume's node affinity",
            id="volume",
        ),
        pytest.param(
            f"0/6 nodes are available: {PINNED}.", PINNED, id="pinned-to-what-is-not-there"
        ),
        pytest.param("all queues are closed", "all queues are closed", id="another-scheduler"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_machine_words_leave_out_what_is_of_other_nodes(said: str, words: str) -> None:
    assert machine_words(said) == words


@pytest.mark.parametrize(
    ("said", "is_about"),
    [
        pytest.param(NO_GPUS, True, id="gpus"),
        pytest.param("all queues are closed", True, id="another-scheduler"),
        pytest.param(
            '0/6 nodes are available: persistentvolumeclaim "data" not found. not found',
            False,
            id="no-claim",
        ),
        pytest.param(
            "0/6 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            False,
            id="unbound-claim",
        ),
    ],
)
def test_message_about_no_node_is_not_about_the_machine(said: str, *, is_about: bool) -> None:
    assert is_about_machine(said) is is_about


def test_machine_is_full_after_its_pod_waits_the_settle_time() -> None:
    full_machines, pod = FullMachines(), waiting()

    early = look(full_machines, pod, at=0)
    assert (early.full, early.next_at) == ({}, later(seconds=SETTLE_SECONDS))
    assert gpus(full_machines) == {"l4-0": 8, "l4-1": 8}
    assert not look(full_machines, at=1).full, "the pod is bound, or made again"
    look(full_machines, pod, at=2)
    assert not look(full_machines, pod, at=SETTLE_SECONDS).full
    found = look(full_machines, pod, at=2 + SETTLE_SECONDS)

    assert found.since == later(seconds=2 + SETTLE_SECONDS)
    said = str(found.full["l4-0"])
    assert said == "has no room for math-rollout-l4-0-0: 1 Insufficient nvidia.com/gpu"
    assert gpus(full_machines) == {"l4-1": 8}
    assert full_machines.left_out("uid-1", FLEET) == (
        "1 node left out (l4-0): no room for a pod, in the scheduler's words: "
        "1 Insufficient nvidia.com/gpu",
    )


@pytest.mark.parametrize(
    ("said", "times"),
    [
        pytest.param(NO_GPUS, 1, id="gpus-that-others-hold"),
        pytest.param(message("1 Insufficient memory"), 2, id="perhaps-too-much-memory"),
    ],
)
def test_next_machine_takes_longer_where_the_request_may_be_excessive(
    said: str, times: int
) -> None:
    full_machines, pod = full(waiting(said)), waiting(said, name="l4-1")
    look(full_machines, pod, at=20)

    assert "l4-1" not in look(full_machines, pod, at=19 + times * SETTLE_SECONDS).full
    assert "l4-1" in look(full_machines, pod, at=20 + times * SETTLE_SECONDS).full


def test_exclusion_lasts_while_a_pod_waits_and_some_minutes_more() -> None:
    full_machines, pod = full(), waiting()
    last = 3 * EXCLUDED_SECONDS
    for number in range(7):
        assert look(full_machines, pod, at=SETTLE_SECONDS + number * last / 6).full
    ended = SETTLE_SECONDS + last + EXCLUDED_SECONDS

    assert look(full_machines, at=ended - 1).next_at == later(seconds=ended)
    assert gpus(full_machines) == {"l4-1": 8}
    assert look(full_machines, at=ended).next_at is None
    assert gpus(full_machines) == {"l4-0": 8, "l4-1": 8}


def test_exclusion_doubles_whenever_a_job_finds_the_machine_full_again() -> None:
    full_machines, at, lengths = full(), SETTLE_SECONDS, []
    for _ in range(6):
        end = look(full_machines, at=at).next_at
        assert end
        lengths.append((end - later(seconds=at)).total_seconds())
        at += lengths[-1]
        look(full_machines, waiting(), at=at)
        at += SETTLE_SECONDS
        look(full_machines, waiting(), at=at)

    assert lengths == [300, 600, 1200, 2400, 3600, 3600]


def test_exclusion_ends_when_the_pod_is_bound_after_all() -> None:
    full_machines = full()
    bound = replace(waiting(), node="l4-0", unschedulable_since=None)

    look(full_machines, bound, at=20)

    assert gpus(full_machines) == {"l4-0": 8, "l4-1": 8}


def test_exclusion_stays_while_another_pod_waits_for_the_machine() -> None:
    full_machines = full()
    bound = replace(waiting(), node="l4-0", unschedulable_since=None)

    found = look(full_machines, bound, waiting(ordinal=1, uid="two", name="l4-0"), at=20)

    assert found.full
    assert gpus(full_machines) == {"l4-1": 8}


@pytest.mark.parametrize(
    ("pod", "held", "free"),
    [
        pytest.param(waiting(gpus=4), 0, {"l4-0": 3, "l4-1": 8}, id="room-for-fewer"),
        pytest.param(waiting(gpus=1), 0, {"l4-1": 8}, id="no-room"),
        pytest.param(waiting(gpus=4), 2, {"l4-0": 5, "l4-1": 8}, id="beside-what-it-holds"),
        pytest.param(
            waiting(message("1 Insufficient memory")), 0, {"l4-0": 8, "l4-1": 8}, id="memory"
        ),
        pytest.param(
            waiting(message("1 node(s) didn't match pod anti-affinity rules")),
            0,
            {"l4-0": 8, "l4-1": 8},
            id="anti-affinity",
        ),
    ],
)
def test_full_machine_costs_other_jobs_gpus_only(
    pod: PodSeen, held: int, free: dict[str, int]
) -> None:
    full_machines = full(pod)

    assert gpus(full_machines) == {"l4-1": 8}, "the job itself avoids the machine whole"
    assert gpus(full_machines, "uid-2", l4_0=held) == free


def test_exclusion_end_requeues_other_jobs() -> None:
    full_machines = full()

    ends = look(full_machines, at=SETTLE_SECONDS, uid="uid-2").next_at

    assert ends == later(seconds=SETTLE_SECONDS + EXCLUDED_SECONDS)
    look(full_machines, at=SETTLE_SECONDS + EXCLUDED_SECONDS, uid="uid-2")
    assert gpus(full_machines, "uid-2") == {"l4-0": 8, "l4-1": 8}


def test_wait_for_room_is_over_when_all_is_placed() -> None:
    full_machines = full()
    assert look(full_machines, waiting(), at=20).since

    assert look(full_machines, waiting(), at=21, is_placed=True).since is None
    assert look(full_machines, waiting(), at=22).since == later(seconds=22)


def test_suspended_job_starts_a_new_wait() -> None:
    full_machines = full()
    assert look(full_machines, waiting(), at=20).since

    assert look(full_machines, at=21).since is None


def test_deleted_job_leaves_no_exclusion() -> None:
    full_machines = full()

    full_machines.forget("uid-1")

    assert full_machines == FullMachines()


READY = [{"type": "Ready", "status": "True", "lastTransitionTime": None}]


def cache(*others: PodSeen) -> InformerCache:
    node = slim_node(
        {
            "metadata": {"name": "l4-0", "labels": {"kubernetes.io/hostname": "l4-0"}},
            "status": {"conditions": READY},
        }
    )
    pods = {("default", "other"): list(others)}
    return InformerCache(
        jobs={}, plans={}, pods=pods, children={}, node_index={"l4-0": [node]}, topology_index={}
    )


def stopping(due: datetime, node: str = "l4-0") -> PodSeen:
    return a_pod("rollout-l4-0", node=node, deletion_due_at=due)


@pytest.mark.parametrize(
    ("pod", "others", "nodes", "is_crowded"),
    [
        pytest.param(waiting(), (), NodesSeen(), True, id="waits"),
        pytest.param(waiting(selected_hostname=""), (), NodesSeen(), True, id="by-affinity"),
        pytest.param(waiting(name="l4-1"), (), NodesSeen(), False, id="for-another"),
        pytest.param(
            waiting(selected_hostname="", affinity_nodes=frozenset()),
            (),
            NodesSeen(),
            False,
            id="pinned-to-none",
        ),
        pytest.param(waiting(unschedulable_since=None), (), NodesSeen(), False, id="not-tried-yet"),
        pytest.param(waiting(node="l4-0"), (), NodesSeen(), False, id="bound"),
        pytest.param(waiting(deletion_due_at=NOW), (), NodesSeen(), False, id="stops"),
        pytest.param(waiting(nominated_node="l4-0"), (), NodesSeen(), False, id="preempts"),
        pytest.param(
            waiting('0/6 nodes are available: persistentvolumeclaim "data" not found.'),
            (),
            NodesSeen(),
            False,
            id="claim-not-found",
        ),
        pytest.param(waiting(), (), NodesSeen(lost={"l4-0": NOW}), False, id="lost-machine"),
        pytest.param(waiting(), (), NodesSeen(leaving={"l4-0": "cordoned"}), False, id="leaving"),
        pytest.param(
            waiting(), (stopping(later(seconds=1)),), NodesSeen(), False, id="another-pod-stops"
        ),
        pytest.param(
            waiting(),
            (stopping(later(seconds=1), "l4-1"),),
            NodesSeen(),
            True,
            id="another-pod-stops-elsewhere",
        ),
        pytest.param(
            waiting(),
            (stopping(later(seconds=-LATE_SECONDS)),),
            NodesSeen(),
            True,
            id="another-pod-does-not-stop",
        ),
        pytest.param(
            waiting(), (a_pod("rollout-l4-0", node="l4-0"),), NodesSeen(), True, id="another-runs"
        ),
    ],
)
def test_machine_is_crowded_where_nothing_but_room_is_missing(
    pod: PodSeen, others: tuple[PodSeen, ...], nodes: NodesSeen, *, is_crowded: bool
) -> None:
    found = cache(*others).crowded({"l4-0", "gone"}, (pod,), nodes, NOW)

    assert found == ({"l4-0": (pod,)} if is_crowded else {})
