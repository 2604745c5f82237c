"""Why each alternative lost, and by how much."""

from collections.abc import Sequence

from hetrl_core.plan.plan import Plan, Prediction, Rejected, ReplicaGroup
from hetrl_core.task import TRAINING_TASKS
from hetrl_planner.phase1.alternatives import Alternative
from hetrl_planner.phase1.choice import Choice
from hetrl_planner.phase1.space import Space
from hetrl_planner.problem.goals import Fastest, Goal


def rejected(others: Sequence[Alternative], chosen: Plan, goal: Goal) -> tuple[Rejected, ...]:
    """Return why each alternative lost, except those that equal the plan itself."""
    used = _kinds(chosen.groups)
    training = _kinds([each for each in chosen.groups if TRAINING_TASKS.intersection(each.tasks)])
    return tuple(
        Rejected(
            summary=other.summary,
            reason=_reason(other.space, goal, chosen.prediction, other.choice),
        )
        for other in others
        if (training if other.trains_only else used) != {other.kind}
    )


def _kinds(groups: Sequence[ReplicaGroup]) -> set[str]:
    return {kind for group in groups for kind in group.gpu_kinds}


def _reason(part: Space, goal: Goal, chosen: Prediction, other: Choice | None) -> str:
    if other is None:
        if not part.trainings:
            return "training fits no GPU in any split"
        if not part.rollouts:
            return "generation fits no GPU in any split"
        return "no plan within the limits"
    rate = part.work.batch_size / other.step_seconds
    if isinstance(goal, Fastest):
        slower = other.step_seconds / chosen.step_seconds
        return (
            f"{slower:.2f}x the step time: {rate:.2f} samples/s on {other.num_gpus} GPUs "
            f"at {other.dollars_per_hour:.2f} $/h ({other.bottleneck})"
        )
    dearer = other.dollars_per_hour / chosen.dollars_per_hour if chosen.dollars_per_hour else 1.0
    return (
        f"{dearer:.2f}x the price: {other.dollars_per_hour:.2f} $/h for {rate:.2f} samples/s "
        f"on {other.num_gpus} GPUs"
    )
