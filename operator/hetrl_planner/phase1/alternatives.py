"""Alternatives to compare a plan with: one GPU kind alone, another trainer kind.

Each is searched as the plan itself was, so the comparison is with its best.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hetrl_planner.phase1.choice import Choice
from hetrl_planner.phase1.iterate import Searcher
from hetrl_planner.phase1.space import Space
from hetrl_planner.problem.goals import Goal

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
    kinds = space.kinds
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
