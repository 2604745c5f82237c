"""Rejected alternatives and their distance: one GPU kind alone, another trainer kind.

Each is searched as the plan itself was, so the comparison is with its best.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hetrl_core.plan.plan import Plan, Prediction, Rejected, ReplicaGroup
from hetrl_core.task import TRAINING_TASKS
from hetrl_planner.phase1.choice import Choice
from hetrl_planner.phase1.iterate import Searcher, Space
from hetrl_planner.problem.goals import Fastest, Goal

MAX_ALTERNATIVES = 20
"""As many as a HetRLPlan holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The best plan with fewer kinds to choose from."""

    kind: str
    trains_only: bool
    """Whether only training is bound to the kind, or everything."""

    space: Space
    choice: Choice | None

    @property
    def summary(self) -> str:
        """Name the alternative."""
        return f"training on {self.kind}" if self.trains_only else f"{self.kind} alone"


def alternatives(space: Space, goal: Goal, searcher: Searcher) -> tuple[Alternative, ...]:
    """Return the best plan of each GPU kind alone, and with each kind as the trainer."""
    kinds = sorted({site.kind.name for site in space.sites})
    if len(kinds) == 1 or not space.has_choices:
        return ()
    parts = [(kind, False, space.only(kind=kind)) for kind in kinds]
    parts += [(kind, True, space.only(training_kind=kind)) for kind in kinds]
    found = []
    for kind, trains_only, part in parts[:MAX_ALTERNATIVES]:
        if searcher.should_stop():
            break
        best = searcher.best(part, goal)
        found.append(
            Alternative(
                kind=kind, trains_only=trains_only, space=part, choice=best.choice if best else None
            )
        )
    return tuple(found)


def choices(others: Sequence[Alternative]) -> list[Choice]:
    """Return the plans of those that have one."""
    return [other.choice for other in others if other.choice]


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
