"""All rollout replicas of a job together: the concurrency of each, and the time of a batch.

A synchronous step waits for every trajectory, so each replica takes what it finishes in time; one
that is too slow for a single trajectory takes none. In asynchronous modes the staleness bound sets
two limits, both looser the longer a step is. A response must be done, with its group, before it is
too old (``useful_seconds``). Trajectories that wait for their group, their batch, scores or the
trainer count as in flight (``most_in_flight``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isinf

from hetrl_planner.cost.iteration import Stream, generation_window_seconds
from hetrl_planner.cost.network import WeightSync
from hetrl_planner.cost.serving import Serving
from hetrl_planner.problem.workload import ON_TIME, Workload

PRECISION = 1e-7
"""Tolerance of a window, and of the trajectories made in it, as a share."""

DOUBLINGS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """Replicas that are alike."""

    serving: Serving
    num_replicas: int
    weights: WeightSync


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherStepParts:
    """The other parts of a step."""

    training_side_seconds: float = 0.0
    """From a generated batch to new weights: scoring, then training."""

    others_seconds: float = 0.0
    """The step that all other GPUs need."""

    same_gpus_seconds: float = 0.0
    """Other tasks' turn on the rollouts' GPUs."""

    scoring_seconds: float = 0.0
    """A trajectory's time in scoring, where the trainer does not score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The generation of a batch."""

    seconds: float
    """From one version to the next, weights included; infinite if nothing is in time."""

    concurrency: tuple[float, ...]
    """Trajectories at once on one replica, on average, by replica; 0: not used."""


def generated(rollouts: Sequence[Rollouts], work: Workload, beside: OtherStepParts) -> Generated:
    """Return the shortest time for a batch, and the concurrency that it takes.

    Any replica may generate any member of a group, which is as old as its oldest member; so
    rollouts behind a slow link make the time short for all. They are used where that is worth it.
    """
    if work.is_synchronous:
        return _in_turn(rollouts, work)
    best: Generated | None = None
    for lag in sorted({each.weights.transfer_seconds for each in rollouts}):
        tried = _Asynchronous(rollouts, work, beside, longest_lag=lag)
        if best and tried.is_longer_than(best.seconds):
            continue
        found = tried.generated()
        if best is None or found.seconds < best.seconds:
            best = found
    assert best
    return best


def useful_seconds(
    work: Workload, weights: WeightSync, *, window_seconds: float, scoring_seconds: float = 0.0
) -> float:
    """Return how long an average trajectory may take, so that its group is used in time.

    ``(c·η·(T - load) - lag - scoring) / κ``: rollouts stop while they load weights, those
    behind a link work with a version that is older by its time, more where a link takes longer
    than a step and versions pile up; a group takes ``κ`` times as long as one trajectory, and
    ``c`` is left of the bound since groups differ. ``T`` is what a step leaves of the
    rollouts' GPUs.
    """
    working = ON_TIME * work.max_staleness * (window_seconds - weights.load_seconds)
    lag = weights.transfer_seconds + max(0.0, weights.transfer_seconds - window_seconds)
    return (working - lag - scoring_seconds) / work.group_spread


def most_in_flight(work: Workload, *, training_side_share: float) -> float:
    """Return how many trajectories admission lets run at once, on average.

    ``(η + 1)·B`` may be accepted or running. The training side holds its share of a step of a
    batch, a batch in the making half of one; and each that runs keeps ``κ - 1`` that are done
    waiting for their group.
    """
    left = work.max_staleness + 0.5 - training_side_share
    return max(0.0, left) * work.batch_size / work.group_spread


def _in_turn(rollouts: Sequence[Rollouts], work: Workload) -> Generated:
    """Return the shortest time in which replicas start and finish one batch together."""

    def taken(window: float) -> float:
        return sum(
            each.num_replicas * each.serving.done_within(window - each.weights.total_seconds)
            for each in rollouts
        )

    seconds = _least(
        taken, work.batch_size, above=min(each.weights.total_seconds for each in rollouts)
    )
    if isinf(seconds):
        return Generated(seconds=seconds, concurrency=(0.0,) * len(rollouts))
    # The window is found from above, slightly too long.
    surplus = work.batch_size / taken(seconds)
    concurrency = tuple(
        round(surplus * each.serving.concurrency_within(seconds - each.weights.total_seconds), 3)
        for each in rollouts
    )
    return Generated(seconds=seconds, concurrency=concurrency)


def _least(made: Callable[[float], float], wanted: float, *, above: float) -> float:
    """Return the shortest window that yields enough trajectories; infinite if there is none.

    A longer window only yields more.
    """
    low, missing = above, made(above) - wanted
    if missing >= 0:
        return above
    high, surplus = _doubled(made, wanted, above=max(1.0, above))
    if isinf(high):
        return high
    # The Illinois method: secants that never leave the bracket; an end that stays is halved.
    while high - low > PRECISION * high and surplus > PRECISION * wanted:
        middle = (low * surplus - high * missing) / (surplus - missing)
        found = made(middle) - wanted
        if found >= 0:
            high, surplus, missing = middle, found, missing / 2
        else:
            low, missing, surplus = middle, found, surplus / 2
    return high


def _doubled(made: Callable[[float], float], wanted: float, *, above: float) -> tuple[float, float]:
    """Return a window in which enough is made, and how much more that is; or an infinite one."""
    for _ in range(DOUBLINGS):
        above *= 2
        surplus = made(above) - wanted
        if surplus >= 0:
            return above, surplus
    return float("inf"), 0.0


def _stream(each: Rollouts, at_once: float, *, stop_seconds: float) -> Stream:
    rate = each.num_replicas * each.serving.samples_per_second(at_once)
    return Stream(samples_per_second=rate, stop_seconds=stop_seconds)


class _Asynchronous:
    """Rollouts up to some lag, beside a training side that goes on meanwhile."""

    def __init__(
        self,
        rollouts: Sequence[Rollouts],
        work: Workload,
        beside: OtherStepParts,
        *,
        longest_lag: float,
    ) -> None:
        self._work = work
        self._beside = beside
        self._rollouts = rollouts
        self._each = [(each, each.weights.transfer_seconds <= longest_lag) for each in rollouts]
        self._syncs = [
            WeightSync(transfer_seconds=longest_lag, load_seconds=each.weights.load_seconds)
            for each in rollouts
        ]
        self._least_seconds = max(0.0, beside.others_seconds - beside.same_gpus_seconds)

    def is_longer_than(self, seconds: float) -> bool:
        """Tell whether a batch takes longer: in so many seconds, less than one is made."""
        return seconds >= self._least_seconds and self._made(seconds) < self._batch

    def generated(self) -> Generated:
        """Return the shortest time for a batch, and the concurrency that it takes."""
        window = self._least_window(self._least_seconds)
        concurrency = self._concurrency(window)
        if window > self._least_seconds:
            return Generated(seconds=window, concurrency=concurrency)
        seconds = generation_window_seconds(self._streams(concurrency), batch_size=self._batch)
        return Generated(seconds=seconds, concurrency=concurrency)

    @property
    def _batch(self) -> int:
        return self._work.batch_size

    def _least_window(self, least: float) -> float:
        """Return the shortest window, not below the least, in which a batch is made.

        A longer window is used longer and lets more run at once, so the yield only grows.
        """
        most = [each.serving.max_concurrency * used for each, used in self._each]
        low = max(least, generation_window_seconds(self._streams(most), batch_size=self._batch))
        return _least(self._made, self._batch, above=low)

    def _made(self, window: float) -> float:
        return sum(
            each.num_replicas
            * each.serving.rate_near(at_once)
            * max(0.0, window - each.weights.load_seconds - self._refused(each, at_once, window))
            for each, at_once in zip(self._rollouts, self._concurrency(window), strict=True)
        )

    def _refused(self, each: Rollouts, at_once: float, window: float) -> float:
        """Return the time of a step for which a place is refused new work, on average.

        All prompts of the batches that a version may serve are leased ``κ·s`` before the last of
        these batches is whole. From then until newer weights come a replica starts nothing:
        ``x = S + lag + κ·s - η·T``. Its running trajectories continue, so places fall idle
        one by one for the first ``κ·s`` of it.
        """
        if not at_once:
            return 0.0
        step = window + self._beside.same_gpus_seconds
        drains = self._work.group_spread * at_once / each.serving.rate_near(at_once)
        refused = (
            self._beside.training_side_seconds
            + each.weights.transfer_seconds
            + drains
            - self._work.max_staleness * step
        )
        if refused <= 0:
            return 0.0
        return refused**2 / (2 * drains) if refused < drains else refused - drains / 2

    def _concurrency(self, window: float) -> tuple[float, ...]:
        """Return the concurrency of each replica in such a window, within both limits."""
        beside = self._beside
        in_time = [
            is_used
            and each.serving.concurrency_within(
                useful_seconds(
                    self._work, sync, window_seconds=window, scoring_seconds=beside.scoring_seconds
                )
            )
            for (each, is_used), sync in zip(self._each, self._syncs, strict=True)
        ]
        running = sum(
            each.num_replicas * at_once
            for each, at_once in zip(self._rollouts, in_time, strict=True)
        )
        share = beside.training_side_seconds / (window + beside.same_gpus_seconds)
        most = most_in_flight(self._work, training_side_share=share)
        admitted = min(1.0, most / running) if running else 0.0
        return tuple(admitted * at_once for at_once in in_time)

    def _streams(self, concurrency: Sequence[float]) -> list[Stream]:
        return [
            _stream(each, at_once, stop_seconds=each.weights.load_seconds)
            for each, at_once in zip(self._rollouts, concurrency, strict=True)
        ]
