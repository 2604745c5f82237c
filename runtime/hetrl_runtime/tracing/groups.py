"""Spans of traced groups in the coordinator: leased, delivered, buffered, consumed.

    group ─┬─ trajectory ─┬─ lease      a worker's free place waited for work
           │              ├─ ...        what the worker does, in its own process
           │              ├─ buffer     from acceptance until a batch was made
           │              └─ consume    from there until its version was committed
           └─ trajectory ─ ...

One trace a group. Moments are the coordinator's ``now``. A coordinator that dies takes its open
spans with it, as any process does; what was under way then is traced again from its next lease.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from hetrl_runtime.tracing.span import UNTRACED, Attributes, Span, Tracer
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import Outcome, PromptLease

_DIGEST_BYTES = 8

SILENT_SECONDS = 15.0
"""Silence after which a worker did not wait for a lease: a waiting one asks every ten seconds."""


def is_traced(job_uid: str, group: int, *, ratio: float) -> bool:
    """Tell whether a group is among the traced ``ratio`` of a run's.

    All trajectories of a group or none, since a step waits for whole groups; and the same groups
    after every restart, so that a trace can be compared with the one before.
    """
    digest = blake2b(f"{job_uid}/{group}".encode(), digest_size=_DIGEST_BYTES).digest()
    return int.from_bytes(digest) < ratio * (1 << 8 * _DIGEST_BYTES)


@dataclass(slots=True, kw_only=True)
class _Way:
    """The state of one trajectory of a traced group."""

    span: Span
    accepted_at: float = 0.0
    handed_out_at: float = 0.0


@dataclass(slots=True, kw_only=True)
class _Group:
    span: Span
    ways: dict[int, _Way] = field(default_factory=dict)


class GroupTraces:
    """Spans of the traced groups of a run; without traces there are none."""

    def __init__(self, tracer: Tracer, *, job_uid: str) -> None:
        self._tracer = tracer
        self._job_uid = job_uid
        self._groups: dict[int, _Group] = {}
        self._waiting: dict[str, tuple[float, float]] = {}
        """Workers that have got nothing: since when, and when they asked last."""

    def waits(self, process: str, *, now: float) -> None:
        """Record that a worker asked and got no lease."""
        if not self._tracer.sample_ratio:
            return
        self._waiting[process] = (self._waiting_since(process, now), now)

    def leased(
        self, process: str, leases: tuple[PromptLease, ...], *, worker_version: int, now: float
    ) -> tuple[PromptLease, ...]:
        """Return the leases, with the names of their spans where they are traced."""
        if not self._tracer.sample_ratio:
            return leases
        asked_at = self._waiting_since(process, now)
        self._waiting.pop(process, None)
        return tuple(
            self._traced(each, process, worker_version=worker_version, asked_at=asked_at, now=now)
            for each in leases
        )

    def expired(self, ids: Iterable[TrajectoryId]) -> None:
        """Record expired leases."""
        for each in ids:
            self._span(each).event("lease expired")

    def accepted(self, trajectory: DeliveredTrajectory, *, now: float) -> None:
        """Record a trajectory that entered the buffer."""
        way = self._way(trajectory.id)
        if way is None:
            return
        way.accepted_at = now
        way.span.note(
            {
                "hetrl.reward": trajectory.reward,
                "hetrl.rollout": trajectory.process,
                "hetrl.response_tokens": trajectory.num_response_tokens,
                "hetrl.tool_calls": trajectory.num_tool_calls,
                "hetrl.oldest_version": trajectory.oldest_version,
                "hetrl.newest_version": trajectory.newest_version,
            }
        )

    def refused(self, identity: TrajectoryId, outcome: Outcome, reason: str) -> None:
        """Record a refused delivery."""
        said = {"hetrl.outcome": str(outcome), "hetrl.reason": reason[:200]}
        self._span(identity).event("delivery refused", said)

    def handed_out(self, batch: Iterable[DeliveredTrajectory], *, now: float) -> None:
        """Record a batch that goes to the trainer."""
        for each in batch:
            if way := self._way(each.id):
                way.span.child("buffer", began_at=way.accepted_at).end(ended_at=now)
                way.handed_out_at = now

    def consumed(
        self, batch: Sequence[DeliveredTrajectory], *, version: int, step: str, now: float
    ) -> None:
        """End the groups that a version was trained on; ``step`` is its span's traceparent."""
        for each in batch:
            if way := self._way(each.id):
                figures = {
                    "hetrl.version": version,
                    "hetrl.staleness": version - each.oldest_version,
                }
                consume = way.span.child("consume", figures, began_at=way.handed_out_at)
                consume.link([step])
                consume.end(ended_at=now)
                way.span.note({**figures, "hetrl.outcome": "consumed"})
                way.span.end(ended_at=now)
        for group in {each.group for each in batch}:
            self._end(group, "consumed", others="discarded", ended_at=now)

    def abandoned(self, group: int, reason: str) -> None:
        """End a group that nothing is trained on."""
        self._end(group, reason, others=reason)

    def close(self) -> None:
        """End what is open: the run is over here."""
        for group in tuple(self._groups):
            self._end(group, "unfinished", others="unfinished")

    def _traced(
        self,
        lease: PromptLease,
        process: str,
        *,
        worker_version: int,
        asked_at: float,
        now: float,
    ) -> PromptLease:
        group = self._groups.get(lease.group) or self._begun(lease.group, asked_at)
        if group is None:
            return lease
        for member in lease.members:
            if member not in group.ways:
                named = {"hetrl.group": lease.group, "hetrl.member": member}
                span = group.span.child("trajectory", named, began_at=asked_at)
                group.ways[member] = _Way(span=span)
            given: Attributes = {
                "hetrl.rollout": process,
                "hetrl.worker_version": worker_version,
                "hetrl.epoch": lease.epoch,
                "hetrl.waited_seconds": now - asked_at,
            }
            group.ways[member].span.child("lease", given, began_at=asked_at).end(ended_at=now)
        return replace(
            lease,
            traceparents=tuple(group.ways[each].span.traceparent for each in lease.members),
        )

    def _begun(self, number: int, asked_at: float) -> _Group | None:
        if not is_traced(self._job_uid, number, ratio=self._tracer.sample_ratio):
            return None
        span = self._tracer.root("group", {"hetrl.group": number}, began_at=asked_at)
        group = self._groups[number] = _Group(span=span)
        return group

    def _end(
        self, number: int, outcome: str, *, others: str, ended_at: float | None = None
    ) -> None:
        """End a group, and those of its trajectories that have not ended, as ``others``."""
        group = self._groups.pop(number, None)
        if group is None:
            return
        for way in group.ways.values():
            way.span.note({"hetrl.outcome": others})
            way.span.end(ended_at=ended_at)
        group.span.note({"hetrl.outcome": outcome, "hetrl.group_size": len(group.ways)})
        group.span.end(ended_at=ended_at)

    def _way(self, identity: TrajectoryId) -> _Way | None:
        group = self._groups.get(identity.group)
        return group.ways.get(identity.member) if group else None

    def _span(self, identity: TrajectoryId) -> Span:
        way = self._way(identity)
        return way.span if way else UNTRACED

    def _waiting_since(self, process: str, now: float) -> float:
        since, last = self._waiting.get(process, (now, now))
        return since if now - last < SILENT_SECONDS else now
