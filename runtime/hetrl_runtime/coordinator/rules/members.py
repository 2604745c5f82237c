"""The processes that the coordinator knows, and their last status."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from hetrl_core.task import Role, Task
from hetrl_runtime.wire.values import InferenceEndpoint, ProcessStatus

_RATE_WINDOW_SECONDS = 15.0
_MOST_SAID = 64
"""Eight times what a process says in that time: one that says more is not remembered longer."""


@dataclass(slots=True, kw_only=True)
class Member:
    """One registered process."""

    process: str
    role: Role
    pod_set: str
    instance: str
    """New at every start of the process."""

    seen_at: float
    region: str = ""
    relay_address: str = ""
    """Where it would serve weights to others of its region; empty: nowhere."""

    inference: InferenceEndpoint | None = None
    """Its inference endpoint, if it is an inference worker."""

    needs_reference: bool = False
    """Whether what this trainer trains on must come with a reference's words."""

    said: deque[tuple[float, ProcessStatus]] = field(
        default_factory=lambda: deque(maxlen=_MOST_SAID)
    )
    """Its words of the last seconds, the newest last."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Its role, and the tasks of an inference worker."""
        return (self.role, *(self.inference.tasks if self.inference else ()))

    @property
    def status(self) -> ProcessStatus:
        """What it said last."""
        return self.said[-1][1] if self.said else ProcessStatus()

    def hear(self, status: ProcessStatus, *, now: float) -> None:
        """Take a heartbeat in."""
        if self.said and status.generated_tokens < self.status.generated_tokens:
            self.said.clear()
        self.seen_at = now
        self.said.append((now, status))
        while now - self.said[0][0] > _RATE_WINDOW_SECONDS:
            self.said.popleft()

    @property
    def tokens_per_second(self) -> float:
        """Of the last seconds."""
        if len(self.said) < 2:  # noqa: PLR2004  # a rate needs two points
            return 0.0
        (since, first), (until, last) = self.said[0], self.said[-1]
        return (last.generated_tokens - first.generated_tokens) / max(until - since, 1e-9)

    @property
    def idle_ratio(self) -> float:
        """Share of the last seconds that it had nothing to do; 0 where it did not say."""
        if not self.said:
            return 0.0
        first, last = self.said[0][1], self.said[-1][1]
        idle = last.idle_seconds - first.idle_seconds
        busy = last.busy_seconds - first.busy_seconds
        return idle / (idle + busy) if idle + busy > 0 else 0.0


class Members:
    """Registered processes, by name."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._left_at: dict[str, float] = {}
        """By role and task: when a process that left was last heard of."""

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __len__(self) -> int:
        return len(self._members)

    def get(self, process: str) -> Member | None:
        """Return a process, or None if no process of that name registered."""
        return self._members.get(process)

    def enter(self, member: Member) -> Member | None:
        """Write a process in; return the earlier one of that name where it was another start."""
        earlier = self._members.get(member.process)
        self._members[member.process] = member
        return earlier if earlier and earlier.instance != member.instance else None

    def leave(self, process: str) -> None:
        """Strike a process out; that it was there is remembered."""
        member = self._members.pop(process, None)
        if member:
            for kind in member.kinds:
                self._left_at[kind] = max(self._left_at.get(kind, 0.0), member.seen_at)

    def forget_silent(self, since: float) -> None:
        """Strike out everyone who was not heard of since a moment."""
        for process in [each.process for each in self if each.seen_at < since]:
            self.leave(process)

    def relay_for(self, process: str, *, since: float) -> str:
        """Return where a process gets weights that another of its region has fetched.

        It is the first registered of those heard of since a moment. The relay itself, and a process
        that cannot be a relay, get an empty address: they fetch from the trainer.
        """
        asks = self._members.get(process)
        if asks is None or not asks.relay_address:
            return ""
        near = (each for each in self if each.region == asks.region and each.relay_address)
        first = next((each for each in near if each is asks or each.seen_at >= since), asks)
        return "" if first is asks else first.relay_address

    def inference_endpoints(self, *, since: float) -> tuple[InferenceEndpoint, ...]:
        """Return where inference workers are asked that were heard of since a moment."""
        return tuple(each.inference for each in self if each.inference and each.seen_at >= since)

    def num(self, kind: Role | Task) -> int:
        """Count the processes that are here, of a role or of an inference task."""
        return sum(kind in each.kinds for each in self)

    def seen_at(self, kind: Role | Task) -> float | None:
        """Return when a process of a role or an inference task was last heard of; None: never."""
        times = [each.seen_at for each in self if kind in each.kinds]
        if kind in self._left_at:
            times.append(self._left_at[kind])
        return max(times, default=None)
