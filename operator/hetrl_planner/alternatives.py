"""What else was possible, and by how much it lost: one GPU kind alone, another trainer.

Each is searched as the plan itself was, so the comparison is with its best, not with a
straw man.
"""

from hetrl_core.plan import Plan, Prediction, Rejected
from hetrl_core.task import Task
from hetrl_planner.choice import Choice
from hetrl_planner.milp import Fastest, Goal
from hetrl_planner.search import Searcher, Space

MAX_ALTERNATIVES = 20
"""As many as a HetRLPlan holds."""


def alternatives(
    space: Space, goal: Goal, chosen: Plan, searcher: Searcher
) -> tuple[Rejected, ...]:
    """Return the best plan of each GPU kind alone, and of each other kind as the trainer."""
    kinds = sorted({site.kind.name for site in space.sites})
    used = set().union(*(group.gpu_kinds for group in chosen.groups))
    training = set().union(*(group.gpu_kinds for group in chosen.groups_with(Task.ACTOR_TRAINING)))
    others = [(f"{kind} alone", space.only(kind=kind)) for kind in kinds if used != {kind}]
    others += [
        (f"training on {kind}", space.only(training_kind=kind))
        for kind in kinds
        if training != {kind} and len(kinds) > 1
    ]
    found = []
    for summary, part in others[:MAX_ALTERNATIVES]:
        if searcher.should_stop():
            break
        other = searcher.best(part, goal)
        reason = _reason(part, goal, chosen.prediction, other.choice if other else None)
        found.append(Rejected(summary=summary, reason=reason))
    return tuple(found)


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
