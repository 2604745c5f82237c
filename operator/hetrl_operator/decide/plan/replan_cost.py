"""The evaluation of a replan: the gain of another plan against the cost of the move.

Gains and costs are in the unit of the job's objective: samples for throughput, dollars for a
required rate at low cost. ``replan`` selects the plans and uses the result.
"""

from dataclasses import dataclass
from enum import StrEnum

from hetrl_api.job.planning import Replan
from hetrl_core.plan.plan import Plan, Prediction
from hetrl_core.task import TRAINING_TASKS
from hetrl_core.units import GIGA
from hetrl_operator.decide.plan.pod_diff import Moves
from hetrl_operator.model.reasons import ReplanOutcome

START_SECONDS = 60.0
"""Time from a pod's deletion to its successor's process, with a cached image; our estimate."""

READ_BYTES_PER_SECOND = 1 * GIGA
"""Rate at which a trainer reads its part of a checkpoint from a network disk; our estimate."""

SAME_RATE = 0.01
"""Share by which rates may differ and still count as equal: cost models are not more precise."""

_HOUR = 3600.0


class Unit(StrEnum):
    """The unit of gains and costs."""

    SAMPLES = "samples"
    DOLLARS = "dollars"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanInputs:
    """The values of a job that the evaluation of a replan needs."""

    replan: Replan
    batch_size: int
    """Samples of one step."""

    steps_done: int = 0
    steps_left: int
    required_rate: float | None = None
    """Sufficient rate in samples per second; None: the highest possible one."""

    keeps_checkpoints: bool = True
    """Whether a restarted trainer can resume from a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanEvaluation:
    """The gain and cost of one move, in ``unit``."""

    unit: Unit
    before: float
    """Samples per second, or dollars per hour, of the active plan."""

    after: float
    window_seconds: float
    """Time in which the other plan gains, from the end of the change."""

    cost_of_starts: float
    """Work that is lost while pods start."""

    cost_of_weights: float
    """Work that is lost while weights and checkpoints are read."""

    cost_of_lost_work: float
    """Work that was begun and must be repeated."""

    least_percent: float

    @property
    def gain_per_second(self) -> float:
        """The gain in a second of the window."""
        if self.unit is Unit.SAMPLES:
            return self.after - self.before
        return (self.before - self.after) / _HOUR

    @property
    def gain(self) -> float:
        """The gain in the whole window."""
        return self.gain_per_second * self.window_seconds

    @property
    def cost(self) -> float:
        """The cost of the change."""
        return self.cost_of_starts + self.cost_of_weights + self.cost_of_lost_work

    @property
    def improvement_percent(self) -> float:
        """The gain as a percentage of the active plan's value."""
        if self.before <= 0:
            return 100.0 if self.gain_per_second > 0 else 0.0
        gained = self.after - self.before if self.unit is Unit.SAMPLES else self.before - self.after
        return 100 * gained / self.before

    @property
    def outcome(self) -> str:
        """Adopted, TooLittle or TooDear of ``ReplanOutcome``."""
        if self.gain_per_second <= 0 or self.improvement_percent < self.least_percent:
            return ReplanOutcome.TOO_LITTLE
        return ReplanOutcome.ADOPTED if self.gain > self.cost else ReplanOutcome.TOO_DEAR

    def __str__(self) -> str:
        verdict = {
            ReplanOutcome.ADOPTED: "adopted",
            ReplanOutcome.TOO_DEAR: "rejected, it does not pay",
            ReplanOutcome.TOO_LITTLE: (
                f"rejected, {self.improvement_percent:.3g}% is less than the "
                f"{self.least_percent:.3g}% of spec.planning.replan.minImprovementPercent"
            ),
        }[self.outcome]
        return (
            f"gains {self._rate()} over {self.window_seconds:.0f} s = {self._sum(self.gain)}; "
            f"costs {self._sum(self.cost)} (pod starts {self.cost_of_starts:.4g}, weights "
            f"{self.cost_of_weights:.4g}, lost work {self.cost_of_lost_work:.4g}): {verdict}"
        )

    def _rate(self) -> str:
        if self.unit is Unit.SAMPLES:
            gained = self.after - self.before
            return f"{gained:.3g} samples/s ({self.before:.3g} -> {self.after:.3g})"
        return f"${self.before - self.after:.2f}/h (${self.before:.2f} -> ${self.after:.2f})"

    def _sum(self, value: float) -> str:
        return f"{value:.0f} samples" if self.unit is Unit.SAMPLES else f"${value:.2f}"


def evaluate(
    current: Prediction, new: Plan, *, moves: Moves, inputs: ReplanInputs
) -> ReplanEvaluation:
    """Return the gain and cost of a move to another plan.

    The gain counts from the end of the change until the end of the stability window or of the job.
    During the change, stopped rollouts generate nothing. A trainer that moves stops everything, and
    loses half a step on average, or all steps without a claim for checkpoints. A stopped rollout
    loses half of its trajectories.

    Args:
        current: the active plan's prediction on the fleet as it is now.
        new: the other plan.
        moves: the pods that would stop and start.
        inputs: the job's values that the evaluation needs.
    """
    rate = current.samples_per_second
    stopped = rate if moves.moves_trainer else rate * moves.stopped_share
    weights_seconds = new.prediction.weight_sync_seconds if moves.num_started else 0.0
    if moves.moves_trainer:
        weights_seconds += _reading_seconds(new)
    start_seconds = START_SECONDS if moves.num_started else 0.0
    left_seconds = inputs.steps_left * inputs.batch_size / rate
    window = min(float(inputs.replan.stability_window_seconds), left_seconds)
    unit = _unit(current, new.prediction, inputs)
    # A sample is valued at its current cost.
    value = 1.0 if unit is Unit.SAMPLES else current.dollars_per_hour / _HOUR / rate
    in_samples = unit is Unit.SAMPLES
    return ReplanEvaluation(
        unit=unit,
        before=rate if in_samples else current.dollars_per_hour,
        after=new.prediction.samples_per_second if in_samples else new.prediction.dollars_per_hour,
        window_seconds=max(0.0, window - start_seconds - weights_seconds),
        cost_of_starts=value * stopped * start_seconds,
        cost_of_weights=value * stopped * weights_seconds,
        cost_of_lost_work=value * _lost_samples(moves, inputs),
        least_percent=inputs.replan.min_improvement_percent,
    )


def _unit(current: Prediction, new: Prediction, inputs: ReplanInputs) -> Unit:
    """Return samples while the rate is below the required one, and dollars otherwise."""
    before, after = current.samples_per_second, new.samples_per_second
    needed = before if inputs.required_rate is None else inputs.required_rate
    suffices = min(before, after) >= needed * (1 - SAME_RATE)
    is_same = inputs.required_rate is not None or after <= before * (1 + SAME_RATE)
    return Unit.DOLLARS if suffices and is_same else Unit.SAMPLES


def _lost_samples(moves: Moves, inputs: ReplanInputs) -> float:
    generating = moves.stopped_concurrency / 2
    if not moves.moves_trainer:
        return generating
    steps = 0.5 if inputs.keeps_checkpoints else inputs.steps_done + 0.5
    return generating + steps * inputs.batch_size


def _reading_seconds(new: Plan) -> float:
    """Return the time to read the weights and optimizer of the GPU with the most bytes."""
    most = max(
        (
            group.memory.weights_bytes + group.memory.optimizer_bytes
            for group in new.groups
            if TRAINING_TASKS & set(group.tasks)
        ),
        default=0,
    )
    return most / READ_BYTES_PER_SECOND
