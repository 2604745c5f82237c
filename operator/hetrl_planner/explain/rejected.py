"""Why each alternative lost, and by how much."""

from collections.abc import Iterator, Sequence

from hetrl_core.plan.plan import Plan, Prediction, Rejected, ReplicaGroup
from hetrl_core.task import TRAINING_TASKS
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.phase1.alternatives import Alternative
from hetrl_planner.phase1.choice import Choice
from hetrl_planner.problem.goals import Fastest, Goal

FASTEST = "fastest"
"""The name of the plan without tolerance."""


MOST_REJECTED = 20
"""As many as a HetRLPlan holds."""


def rejected(
    alternatives: Sequence[Alternative],
    chosen: Plan,
    goal: Goal,
    *,
    batch_size: int,
    fastest: Evaluation | None = None,
    cheaper: Evaluation | None = None,
) -> tuple[Rejected, ...]:
    """Return why each alternative lost, except those that equal the plan itself."""
    used = _kinds(chosen.groups)
    training = _kinds([each for each in chosen.groups if TRAINING_TASKS.intersection(each.tasks)])
    others = (
        Rejected(
            summary=other.summary,
            reason=_reason(other, goal, chosen.prediction),
        )
        for other in alternatives
        if (training if other.trains_only else used) != {other.kind}
    )
    by_price = _by_price(fastest, cheaper, chosen.prediction, batch_size)
    return (*by_price, *others)[:MOST_REJECTED]


def _by_price(
    fastest: Evaluation | None, cheaper: Evaluation | None, chosen: Prediction, batch_size: int
) -> Iterator[Rejected]:
    """Yield the fastest plan if a cheaper one was taken, and one that is cheaper still."""
    if fastest:
        gained = 100 * (chosen.step_seconds / fastest.step_seconds - 1)
        yield Rejected(
            summary=FASTEST,
            reason=f"{_figures(fastest, chosen, batch_size)}; it is {gained:.1f} % faster, "
            "within spec.planning.tolerancePercent",
        )
    if cheaper:
        budget = f"spec.resources.budgetPerHour {cheaper.dollars_per_hour:.2f}"
        figures = _figures(cheaper, chosen, batch_size)
        yield Rejected(
            summary="cheaper",
            reason=f"{figures}; the job sets no limit and pays for the last per cents: {budget}",
        )


def _figures(other: Evaluation | Choice, chosen: Prediction, batch_size: int) -> str:
    slower = other.step_seconds / chosen.step_seconds
    return (
        f"{slower:.2f}x the step time: {batch_size / other.step_seconds:.2f} samples/s on "
        f"{other.num_gpus} GPUs at {other.dollars_per_hour:.2f} $/h"
    )


def _kinds(groups: Sequence[ReplicaGroup]) -> set[str]:
    return {kind for group in groups for kind in group.gpu_kinds}


def _reason(alternative: Alternative, goal: Goal, chosen: Prediction) -> str:
    part, other = alternative.space, alternative.choice or alternative.found
    if other is None:
        if not part.rollouts:
            return "generation fits no GPU in any split"
        return f"no plan was found quickly; hetrl plan --choose '{alternative.summary}' searches on"
    if isinstance(goal, Fastest):
        return f"{_figures(other, chosen, part.work.batch_size)} ({other.bottleneck})"
    rate = part.work.batch_size / other.step_seconds
    dearer = other.dollars_per_hour / chosen.dollars_per_hour if chosen.dollars_per_hour else 1.0
    return (
        f"{dearer:.2f}x the price: {other.dollars_per_hour:.2f} $/h for {rate:.2f} samples/s "
        f"on {other.num_gpus} GPUs"
    )
