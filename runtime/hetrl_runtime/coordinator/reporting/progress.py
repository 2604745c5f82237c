"""Progress of a run and the reason why it waits, from what the coordinator has seen.

Pure: callers pass the time. ``run_files`` writes the result and ``progress_post`` posts it.
"""

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from hetrl_runtime.coordinator.rules.members import Members
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.values import Ending

_RECENT_STEPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSnapshot:
    """Counts of trajectories, workers and requests at one moment."""

    version: int = 0
    has_trainer: bool = False
    num_workers: int = 0
    lacks_inference: bool = False
    """Whether rollouts must ask inference workers, and none is here."""

    trainer_waits: bool = False
    """For its next batch."""

    workers_waiting: int = 0
    """Workers whose request for prompts is unanswered."""

    workers_behind: int = 0
    """Of them, those whose weights are too old."""

    ready: int = 0
    buffered: int = 0
    running: int = 0
    pending: int = 0
    capacity: int = 0
    batch_size: int = 1
    is_trained: bool = False
    """Whether the last version is made, and only the trainer's word is to come."""

    awaits_rows: bool = False
    """Whether no prompt goes out before all rows of the data are checked."""

    notices: tuple[str, ...] = ()
    """What a user should know of this run's data."""


def waiting_for(snapshot: RunSnapshot) -> str:
    """Say in words what holds the run up right now; empty when nothing does."""
    if event := _awaited_event(snapshot):
        return event
    if snapshot.workers_behind and snapshot.workers_behind == snapshot.workers_waiting:
        return (
            f"rollouts wait: the weights of {snapshot.workers_behind} workers are too old "
            f"for version {snapshot.version}"
        )
    if snapshot.trainer_waits:
        return (
            f"the trainer waits for a full batch: {snapshot.ready} of {snapshot.batch_size} "
            f"trajectories are in whole groups, {snapshot.running} are being generated"
        )
    if snapshot.workers_waiting and not snapshot.capacity:
        promised = snapshot.buffered + snapshot.running + snapshot.pending
        return (
            f"rollouts wait: {promised} trajectories are promised, the bound allows no more "
            f"until version {snapshot.version + 1}"
        )
    return ""


def _awaited_event(snapshot: RunSnapshot) -> str:
    """Name what must happen before trajectories matter; empty where all has."""
    events = (
        (not snapshot.has_trainer, "the trainer is not here yet"),
        (not snapshot.num_workers, "no rollout worker is here yet"),
        (snapshot.lacks_inference, "no inference worker is here yet"),
        (
            snapshot.awaits_rows,
            "the rows of the data are checked before the first prompt goes out",
        ),
        (snapshot.is_trained, "the trainer writes the checkpoint of the last version"),
    )
    return next((text for is_awaited, text in events if is_awaited), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    at: float
    size: int
    seconds: float
    staleness: Counter[int]
    reward_mean: float
    reward_parts: Mapping[str, float]


class Progresses:
    """The last steps of a run, and figures computed from them."""

    def __init__(self, *, total_steps: int, predicted_step_seconds: float | None) -> None:
        self._total_steps = total_steps
        self._predicted_step_seconds = predicted_step_seconds
        self._began_at: float | None = None
        self._recent: deque[_Batch] = deque(maxlen=_RECENT_STEPS)
        self._largest_staleness = 0
        self.longest_step_seconds = predicted_step_seconds or 0.0

    def begin(self, *, now: float) -> None:
        """Forget steps of a history that did not survive."""
        self._began_at = now
        self._recent.clear()

    def commit(
        self, consumed: Sequence[DeliveredTrajectory], *, version: int, now: float
    ) -> Counter[int]:
        """Count what ``version`` was trained on; return its staleness histogram."""
        since = self._recent[-1].at if self._recent else self._began_at
        seconds = now - since if since is not None else 0.0
        histogram = Counter(version - each.oldest_version for each in consumed)
        reward = fmean(each.reward for each in consumed) if consumed else 0.0
        self._recent.append(
            _Batch(
                at=now,
                size=len(consumed),
                seconds=seconds,
                staleness=histogram,
                reward_mean=reward,
                reward_parts=_mean_parts(consumed),
            )
        )
        self._largest_staleness = max(self._largest_staleness, *histogram, 0)
        self.longest_step_seconds = max(self.longest_step_seconds, seconds)
        return histogram

    @property
    def reward_mean(self) -> float:
        """Mean reward of the last batch."""
        return self._recent[-1].reward_mean if self._recent else 0.0

    @property
    def reward_parts(self) -> Mapping[str, float]:
        """Mean of each of the job's rewards over the last batch, before weights.

        Of those that none of its trajectories has got there is none.
        """
        return self._recent[-1].reward_parts if self._recent else {}

    @property
    def samples_per_second(self) -> float:
        """Trajectories consumed per second over the last steps."""
        seconds = sum(each.seconds for each in self._recent)
        return sum(each.size for each in self._recent) / seconds if seconds > 0 else 0.0

    def message(
        self, snapshot: RunSnapshot, members: Members, *, ending: Ending | None
    ) -> pb.Progress:
        """Return all there is to say about the run at this moment."""
        ages = sorted(sum((each.staleness for each in self._recent), Counter()).elements())
        return pb.Progress(
            step=snapshot.version,
            total_steps=self._total_steps,
            version=snapshot.version,
            samples_per_second=self.samples_per_second,
            reward_mean=self.reward_mean,
            reward_parts=dict(self.reward_parts),
            staleness_mean=fmean(ages) if ages else 0.0,
            staleness_p95=_quantile(ages, 0.95),
            staleness_max=self._largest_staleness,
            eta_seconds=self._eta_seconds(snapshot.version),
            buffered=snapshot.buffered,
            running=snapshot.running,
            finished=ending is not None,
            outcome=ending.outcome if ending else "",
            reason=ending.reason if ending else "",
            message=ending.message if ending else "",
            processes=_processes(members),
            waiting_for="" if ending else waiting_for(snapshot),
            notices=snapshot.notices,
        )

    def _eta_seconds(self, version: int) -> float:
        if self._recent:
            step_seconds = fmean(each.seconds for each in self._recent)
        else:
            step_seconds = self._predicted_step_seconds or 0.0
        return max(0, self._total_steps - version) * step_seconds


def _mean_parts(consumed: Sequence[DeliveredTrajectory]) -> Mapping[str, float]:
    """Return the mean of each part over the trajectories that have it."""
    values: dict[str, list[float]] = {}
    for each in consumed:
        for name, reward in each.reward_parts.items():
            values.setdefault(name, []).append(reward)
    return {name: fmean(values[name]) for name in sorted(values)}


def _processes(members: Members) -> list[pb.ProcessProgress]:
    return [
        pb.ProcessProgress(
            process=each.process,
            role=str(each.role),
            pod_set=each.pod_set,
            version=each.status.version,
            running=each.status.running,
            tokens_per_second=each.tokens_per_second,
            idle_ratio=each.idle_ratio,
        )
        for each in sorted(members, key=lambda each: each.process)
    ]


def _quantile(ascending: Sequence[int], share: float) -> float:
    """Return the smallest value that at least ``share`` of all are not above."""
    if not ascending:
        return 0.0
    return float(ascending[max(0, math.ceil(len(ascending) * share) - 1)])
