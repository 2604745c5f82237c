"""Replacement of pods: which are deleted so that their StatefulSets recreate them, and why.

Trainers are replaced together, since they form one process group. Workers that can continue are
replaced a few of a role at a time; useless ones are replaced at once.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from hetrl_api.job.lifecycle import FailureAction
from hetrl_api.job.status import Restart
from hetrl_core.plan.pod_sets import PodSet
from hetrl_core.task import Role
from hetrl_operator.model.actions import Delete, Event
from hetrl_operator.model.conditions import holds
from hetrl_operator.model.observed import Observed, PodSeen
from hetrl_operator.model.pods import WORKERS, present
from hetrl_operator.model.reasons import ConditionType, EventReason

if TYPE_CHECKING:
    from datetime import datetime

AT_ONCE = 4
"""Divisor for the workers of a role that may be missing during replacement: at most a quarter, as
in Kubernetes' Deployments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The desired state of pods."""

    sets: tuple[PodSet, ...]
    restart_hashes: Mapping[str, str]
    """Restart digests by pod set."""


def replacements(
    seen: Observed, wanted: Wanted, records: tuple[Restart, ...], now: "datetime"
) -> tuple[Delete, ...]:
    """Return the pods to delete now, each once."""
    found = {
        each.uid: each
        for each in (
            *_outdated_workers(seen, wanted),
            *_stuck(seen, now),
            *_restarted(seen, wanted, records),
            *on_lost_nodes(seen, now),
        )
    }
    return tuple(sorted(found.values(), key=lambda each: each.name))


def on_lost_nodes(seen: Observed, now: "datetime") -> tuple[Delete, ...]:
    """Return the pods on lost nodes; no kubelet will confirm their end."""
    return tuple(
        Delete(
            kind="Pod",
            name=pod.name,
            uid=pod.uid,
            is_forced=True,
            why=f"its node {pod.node} does not answer",
        )
        for pod in seen.pods
        if pod.node and is_lost(seen, pod.node, now)
    )


def is_lost(seen: Observed, node: str, now: "datetime") -> bool:
    """Tell whether a node has not answered for longer than the job allows."""
    since, parsed = seen.lost_nodes.get(node), seen.job.parsed
    if since is None or parsed is None:
        return False
    return (now - since).total_seconds() >= parsed.written.failure_policy.node_lost_seconds


def next_loss_seconds(seen: Observed, now: "datetime") -> float | None:
    """Return the seconds until the next silent node counts as lost; None if there is none."""
    if seen.job.parsed is None:
        return None
    limit = timedelta(seconds=seen.job.parsed.written.failure_policy.node_lost_seconds)
    left = [(since + limit - now).total_seconds() for since in seen.lost_nodes.values()]
    return min((each for each in left if each > 0), default=None)


def next_stuck_seconds(seen: Observed, now: "datetime") -> float | None:
    """Return the seconds until the next starting worker counts as stuck; None if none starts."""
    left = [_stuck_after_seconds(seen, pod, now) for pod in seen.pods]
    return min((each for each in left if each is not None and each > 0), default=None)


def events(deletes: tuple[Delete, ...], records: tuple[Restart, ...]) -> tuple[Event, ...]:
    """Announce replacements without a record."""
    if any(each.action == FailureAction.RESTART_JOB for each in records):
        return ()
    return tuple(
        Event(reason=EventReason.POD_REPLACED, message=f"{each.name}: {each.why}", is_warning=True)
        for each in deletes
        if each.why != _RECORDED
    )


_RECORDED = "a failure asked for it"


def _restarted(seen: Observed, wanted: Wanted, records: tuple[Restart, ...]) -> tuple[Delete, ...]:
    """Return the pods that a recorded restart replaces."""
    return tuple(
        _delete(pod, why=_RECORDED)
        for pod in present(seen.pods, wanted.sets).values()
        if not pod.is_gated and any(_is_meant(each, pod) for each in records)
    )


def _is_meant(record: Restart, pod: PodSeen) -> bool:
    if record.action == FailureAction.RESTART_POD:
        return False
    # A pod that was gated at that time is no part of what has to restart.
    if pod.scheduled_at is None or pod.scheduled_at >= record.time:
        return False
    return record.action == FailureAction.RESTART_JOB or record.role == pod.role


def _outdated_workers(seen: Observed, wanted: Wanted) -> tuple[Delete, ...]:
    """Return pods that were started with another spec or for another machine."""
    pods = present(seen.pods, wanted.sets)
    outdated = {
        pod.uid: why
        for each in wanted.sets
        for ordinal in range(each.num_pods)
        if (pod := pods.get((each.name, ordinal))) and (why := _outdated(seen, wanted, each, pod))
    }
    by_role: dict[Role, list[PodSeen]] = {role: [] for role in Role}
    for pod in pods.values():
        by_role[pod.role].append(pod)
    gang = _whole_gang(by_role[Role.TRAINER], outdated)
    return (
        *gang,
        *_coordinator(seen, by_role[Role.COORDINATOR], outdated),
        *(
            each
            for role in sorted(WORKERS)
            for each in _workers(by_role[role], outdated, seen.leaving)
        ),
    )


def _outdated(seen: Observed, wanted: Wanted, pods: PodSet, pod: PodSeen) -> str:
    """Say why a pod is outdated; empty if it is not."""
    machine = pods.machines[pod.ordinal]
    if machine and not pod.may_be_on(machine, hostname=seen.hostnames.get(machine, machine)):
        return f"its place is on {machine} now"
    started_with = pod.restart_hash
    if started_with and started_with != wanted.restart_hashes[pods.name]:
        return "the spec that it was started with has changed"
    return ""


def _whole_gang(trainers: list[PodSeen], outdated: Mapping[str, str]) -> tuple[Delete, ...]:
    whys = [outdated[pod.uid] for pod in trainers if pod.uid in outdated]
    if not whys:
        return ()
    # Gated trainers that are not outdated need no replacement.
    return tuple(
        _delete(pod, why=outdated.get(pod.uid, whys[0]))
        for pod in trainers
        if pod.uid in outdated or not pod.is_gated
    )


def _coordinator(
    seen: Observed, pods: list[PodSeen], outdated: Mapping[str, str]
) -> tuple[Delete, ...]:
    """Return the coordinator once no trainer that stops needs it for its last commit."""
    if any(
        pod.role is Role.TRAINER and (pod.is_deleting or pod.uid in outdated) for pod in seen.pods
    ):
        return ()
    return tuple(_delete(pod, why=outdated[pod.uid]) for pod in pods if pod.uid in outdated)


def _workers(
    pods: list[PodSeen], outdated: Mapping[str, str], leaving: Container[str]
) -> tuple[Delete, ...]:
    old = sorted((pod for pod in pods if pod.uid in outdated), key=lambda pod: pod.name)
    # A worker on a leaving machine will stop anyway, without a message.
    useless = [pod for pod in old if not pod.is_ready or pod.node in leaving]
    working = [pod for pod in old if pod.is_ready and pod.node not in leaving]
    missing = sum(not pod.is_ready for pod in pods)
    now = max(0, max(1, len(pods) // AT_ONCE) - missing)
    return tuple(_delete(pod, why=outdated[pod.uid]) for pod in (*useless, *working[:now]))


def _stuck(seen: Observed, now: "datetime") -> tuple[Delete, ...]:
    """Return workers that have been starting for too long while the job runs without them."""
    return tuple(
        _delete(pod, why="it did not become ready within spec.startupDeadlineSeconds")
        for pod in seen.pods
        if (left := _stuck_after_seconds(seen, pod, now)) is not None and left <= 0
    )


def _stuck_after_seconds(seen: Observed, pod: PodSeen, now: "datetime") -> float | None:
    starts = pod.role in WORKERS and not (pod.is_ready or pod.is_deleting or pod.is_gated)
    if not starts or pod.scheduled_at is None or seen.job.parsed is None:
        return None
    if not holds(seen.job.status, ConditionType.RUNNING):
        return None
    limit = seen.job.parsed.written.startup_deadline_seconds
    ended_at = pod.termination.at if pod.termination else pod.scheduled_at
    since = max(pod.scheduled_at, ended_at)
    return limit - (now - since).total_seconds()


def _delete(pod: PodSeen, *, why: str) -> Delete:
    return Delete(kind="Pod", name=pod.name, uid=pod.uid, why=why)
