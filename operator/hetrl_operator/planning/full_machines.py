"""Machines without room for pods, as the scheduler reports, and how long plans avoid them.

HetRL only knows its own reservations. Pods of other owners and limits of a machine show when a pod
that is pinned to it stays unschedulable. The state is in memory: after a restart the same pods
show it again. ``informer_cache`` says which pods wait for which machine.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hetrl_api.fleet.fleet import GPU_RESOURCE
from hetrl_api.fleet.place import Absence, summary
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_operator.model.observed import FullMachine, FullMachinesSeen, PodSeen
from hetrl_operator.planning.scheduler_messages import machine_words

SETTLE_SECONDS = 10.0
"""Time that a pod stays unschedulable until its machine counts as full. The scheduler retries
within ten seconds of a change. The time grows by as much for each machine that lacked something
other than GPUs: a pod that fits nowhere then tries a few machines of a large fleet, and not all."""

EXCLUDED_SECONDS = 300.0
"""Time that plans avoid a machine after it was full. It doubles each time that the same job finds
it full again."""

MOST_EXCLUDED_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exclusion:
    """A machine that plans of a job avoid, and until when."""

    found: FullMachine
    until: datetime


@dataclass(slots=True)
class FullMachines:
    """Machines excluded from plans, by the job's uid."""

    _excluded: dict[str, dict[str, _Exclusion]] = field(default_factory=dict)
    _times: dict[str, Counter[str]] = field(default_factory=dict)
    """How often a job found a machine full, including exclusions that have ended."""

    _waiting_since: dict[str, dict[str, datetime]] = field(default_factory=dict)
    _without_room_since: dict[str, datetime] = field(default_factory=dict)

    def observe(
        self,
        uid: str,
        pods: Sequence[PodSeen],
        waiting: Mapping[str, Sequence[PodSeen]],
        now: datetime,
        *,
        is_placed: bool,
    ) -> FullMachinesSeen:
        """Record where a job's pods wait, and return the machines that are full.

        Args:
            uid: the job's uid.
            pods: all pods of the job.
            waiting: by machine, the pods that the scheduler cannot bind to it for lack of room.
            now: the time.
            is_placed: whether the job runs, or each of its pods has a node.
        """
        self._expire(now)
        if not (waiting or uid in self._excluded or uid in self._without_room_since):
            self._waiting_since.pop(uid, None)
            return FullMachinesSeen(next_at=self._next_end(uid))
        self._readmit(uid, pods, waiting)
        full = self._full(uid, waiting, now)
        for machine, found in full.items():
            self._exclude(uid, machine, found, now)
        if is_placed or not pods:
            # A suspended job starts a new wait.
            self._without_room_since.pop(uid, None)
        elif full:
            self._without_room_since.setdefault(uid, now)
        settles_at = self._settles_at(uid, waiting.keys() - full.keys())
        times = [each for each in (settles_at, self._next_end(uid)) if each]
        since = self._without_room_since.get(uid)
        return FullMachinesSeen(full=full, since=since, next_at=min(times, default=None))

    def without_full(
        self, uid: str, free: ClusterSnapshot, held: Mapping[str, int]
    ) -> ClusterSnapshot:
        """Return the free fleet without the machines that have no room.

        Args:
            uid: the job's uid.
            free: the fleet without the GPUs of other jobs.
            held: GPUs by machine that the job holds: no other pods are on these.
        """
        own, most = self._excluded.get(uid, {}), self._most_gpus(uid)
        if not own and not most:
            return free
        machines = []
        for each in free.machines:
            limit = held.get(each.name, 0) + most.get(each.name, each.num_gpus)
            left = 0 if each.name in own else min(each.num_gpus, limit)
            if left:
                machines.append(each if left == each.num_gpus else replace(each, num_gpus=left))
        return replace(free, machines=tuple(machines))

    def closed(self, uid: str, whole: ClusterSnapshot) -> tuple[Absence, ...]:
        """Return the machines that take no new pods of a job; it may keep its pods there."""
        own, kinds = self._excluded.get(uid, {}), {each.name: each for each in whole.gpu_kinds}
        return tuple(
            Absence(
                node=each.name,
                gpu_kind=each.gpu_kind,
                labels={},
                reason=_reason(own[each.name].found),
                machine=each,
                kind=kinds[each.gpu_kind],
            )
            for each in whole.machines
            if each.name in own
        )

    def left_out(self, uid: str, whole: ClusterSnapshot) -> tuple[str, ...]:
        """Return why machines are left out of a job's plans, a line per reason."""
        own = self._excluded.get(uid, {})
        found = {name: each.found for name, each in self._of_others(uid).items()}
        found |= {name: each.found for name, each in own.items()}
        return summary(
            Absence(node=each.name, gpu_kind="", labels={}, reason=_reason(found[each.name]))
            for each in whole.machines
            if each.name in found
        )

    def forget(self, uid: str) -> None:
        """Drop the state of a deleted job."""
        for each in (self._excluded, self._times, self._waiting_since, self._without_room_since):
            each.pop(uid, None)

    def _full(
        self, uid: str, waiting: Mapping[str, Sequence[PodSeen]], now: datetime
    ) -> dict[str, FullMachine]:
        """Return the machines that a job's pods have waited for long enough."""
        known, since = self._excluded.get(uid, {}), self._waiting_since.get(uid, {})
        self._waiting_since[uid] = {name: since.get(name, now) for name in waiting}
        settle = self._settle(uid)
        return {
            name: _full_machine(pods)
            for name, pods in waiting.items()
            if name in known or now - self._waiting_since[uid][name] >= settle
        }

    def _settle(self, uid: str) -> timedelta:
        # Missing GPUs are held by other pods, since the planner knows how many a machine has. Other
        # resources may be missing everywhere, if the pod requests too much.
        excluded = self._excluded.get(uid, {}).values()
        return timedelta(seconds=SETTLE_SECONDS) * (
            1 + sum(not each.found.gpus for each in excluded)
        )

    def _settles_at(self, uid: str, machines: Iterable[str]) -> datetime | None:
        times = [self._waiting_since[uid][name] for name in machines]
        return min(times) + self._settle(uid) if times else None

    def _exclude(self, uid: str, machine: str, found: FullMachine, now: datetime) -> None:
        """Exclude a machine while pods wait for it, and for some time after that."""
        known, times = self._excluded.setdefault(uid, {}), self._times.setdefault(uid, Counter())
        if machine not in known:
            times[machine] += 1
        seconds = min(EXCLUDED_SECONDS * 2 ** (times[machine] - 1), MOST_EXCLUDED_SECONDS)
        known[machine] = _Exclusion(found=found, until=now + timedelta(seconds=seconds))

    def _readmit(
        self, uid: str, pods: Sequence[PodSeen], waiting: Mapping[str, Sequence[PodSeen]]
    ) -> None:
        """End the exclusion of a machine if a pod that waited for it was bound to it."""
        bound = {(pod.node, pod.name) for pod in pods if pod.node}
        known = self._excluded.get(uid, {})
        for machine, each in tuple(known.items()):
            is_bound = any((machine, name) in bound for name in each.found.pods)
            if is_bound and machine not in waiting:
                del known[machine], self._times[uid][machine]

    def _expire(self, now: datetime) -> None:
        for uid, known in tuple(self._excluded.items()):
            left = {name: each for name, each in known.items() if each.until > now}
            if left:
                self._excluded[uid] = left
            else:
                del self._excluded[uid]

    def _next_end(self, uid: str) -> datetime | None:
        """Return when the next exclusion ends that affects a job's plans."""
        ends = [each.until for each in self._excluded.get(uid, {}).values()]
        ends += [each.until for each in self._of_others(uid).values()]
        return min(ends, default=None)

    def _most_gpus(self, uid: str) -> dict[str, int]:
        """Return the upper limits of free GPUs that other jobs' pods have shown, by machine."""
        return {name: each.found.gpus - 1 for name, each in self._of_others(uid).items()}

    def _of_others(self, uid: str) -> dict[str, _Exclusion]:
        """Return by machine the tightest limit of GPUs that other jobs have found."""
        found: dict[str, _Exclusion] = {}
        for other, known in self._excluded.items():
            for name, each in known.items() if other != uid else ():
                best = found.get(name)
                if each.found.gpus and (best is None or each.found.gpus < best.found.gpus):
                    found[name] = each
        return found


_LACKS_GPUS = f"Insufficient {GPU_RESOURCE}"


def _full_machine(pods: Sequence[PodSeen]) -> FullMachine:
    words = machine_words(pods[0].waiting_message)
    lacks_gpus = [each.gpus for each in pods if _LACKS_GPUS in each.waiting_message]
    return FullMachine(
        pods=tuple(sorted(each.name for each in pods)),
        roles=frozenset(each.role for each in pods),
        words=words,
        gpus=min(lacks_gpus, default=0),
    )


def _reason(found: FullMachine) -> str:
    return f"no room for a pod, in the scheduler's words: {found.words}"
