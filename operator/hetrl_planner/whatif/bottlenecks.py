"""Bottlenecks of a plan: idle tasks, scarce resources, and the worth of one more of each.

The worth is a dual value of the relaxation in ``bound``. It is the most that could be gained, for
the relaxation shares GPUs in any fraction.
"""

from collections import defaultdict
from dataclasses import dataclass

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan
from hetrl_core.task import Task
from hetrl_planner.explain.bound import bound_on
from hetrl_planner.phase1.space import space_of
from hetrl_planner.problem.goals import goal_of

WORTH_SAYING = 5e-4
"""Shares below this are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceValue:
    """The most that one more unit of a resource could gain, as a share of the goal's value."""

    of: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The limits behind a plan's figures."""

    busy: tuple[tuple[tuple[Task, ...], float], ...]
    """Tasks, and the share of a step in which their GPUs work."""

    bound: float | None
    """A bound that no plan passes: seconds of a step, or dollars an hour."""

    worth: tuple[ResourceValue, ...]
    """Most valuable first."""


def explanation(
    snapshot: ClusterSnapshot, job: JobSpec, found: Plan, *, runnable_only: bool = False
) -> Explanation:
    """Return the limits behind a plan's figures."""
    space = space_of(snapshot, job, runnable_only=runnable_only)
    known = bound_on(space, goal_of(job), window_seconds=found.prediction.step_seconds)
    worth = [
        ResourceValue(of=f"one more {name}", share=share)
        for name, share in (known.gpu_worth.items() if known else ())
    ]
    if known and job.resources.budget_dollars_per_hour is not None:
        worth.append(ResourceValue(of="one more $/h of budget", share=known.budget_worth))
    return Explanation(
        busy=_busy(found),
        bound=known.value if known else None,
        worth=tuple(
            sorted(
                (each for each in worth if each.share >= WORTH_SAYING),
                key=lambda each: (-each.share, each.of),
            )
        ),
    )


def _busy(found: Plan) -> tuple[tuple[tuple[Task, ...], float], ...]:
    rates: dict[tuple[Task, ...], float] = defaultdict(float)
    for group in found.groups:
        rates[group.tasks] += len(group.replicas) * group.samples_per_second
    needed = found.prediction.samples_per_second
    return tuple((tasks, min(1.0, needed / rate)) for tasks, rate in rates.items() if rate)
