"""Steps that may happen to a job, as values, and sequences of them from a seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

SPEC_CHANGES: dict[str, tuple[Any, ...]] = {
    "training.learningRate": (1e-6, 2e-6, 5e-6),
    "training.checkpointEverySteps": (5, 20),
    "training.steps": (10, 12),
    "resources.maxGPUs": (2, 3, 4),
    "rollout.replicas": (None, 1, 2),
    "runtime.images.rollout": (None, "hetrl/rollout:other"),
    "runtime.images.trainer": (None, "hetrl/trainer:other"),
    "runtime.podTemplate.labels": (None, {"team": "red"}),
    "runtime.podTemplate.env": (None, [{"name": "TEAM", "value": "red"}]),
    "progressDeadlineSeconds": (600, 1800),
    "startupDeadlineSeconds": (800, 900),
    "releaseDeadlineSeconds": (500, 600),
    "failurePolicy.nodeLostSeconds": (200, 300),
    "planning.seed": (1, 2),
    "storage.checkpoints.keepLast": (3, 5),
}
"""Fields and values that each may be given; None takes the field away. A refused change is one."""

DELETED = ("statefulsets", "services", "configmaps", "hetrlplans", "pods")
"""Kinds of children that are deleted. Secrets are not watched: who may list them may read all."""

NUM_NODES = 2
"""Of a lane."""


@dataclass(frozen=True, slots=True)
class Change:
    """The user changes a field."""

    field: str
    value: Any


@dataclass(frozen=True, slots=True)
class Suspend:
    """The user suspends or resumes."""

    is_on: bool


@dataclass(frozen=True, slots=True)
class DeleteChild:
    """Somebody deletes an object of the job."""

    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class KillOperator:
    """The operator's process dies, and comes back."""


@dataclass(frozen=True, slots=True)
class Cordon:
    """A node is closed to new pods, or opened."""

    node: int
    is_on: bool


@dataclass(frozen=True, slots=True)
class Label:
    """A node leaves the job's pool, or comes back."""

    node: int
    is_on: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """The operator has a moment to get on."""

    seconds: float


Step = Change | Suspend | DeleteChild | KillOperator | Cordon | Label | Pause
LEAST_STEPS, MOST_STEPS = 8, 14


def _changes() -> st.SearchStrategy[Step]:
    return st.sampled_from(sorted(SPEC_CHANGES)).flatmap(
        lambda name: st.builds(Change, st.just(name), st.sampled_from(SPEC_CHANGES[name]))
    )


def steps() -> st.SearchStrategy[list[Step]]:
    """Return the strategy of sequences."""
    nodes, on = st.integers(0, NUM_NODES - 1), st.booleans()
    one = st.one_of(
        _changes(),
        _changes(),
        st.builds(Suspend, on),
        st.builds(DeleteChild, st.sampled_from(DELETED), st.integers(0, 5)),
        st.builds(KillOperator),
        st.builds(Cordon, nodes, on),
        st.builds(Label, nodes, on),
        st.builds(Pause, st.sampled_from((0.1, 0.5, 2.0))),
    )
    return st.lists(one, min_size=LEAST_STEPS, max_size=MOST_STEPS)


@dataclass(slots=True)
class _Drawn:
    found: list[Step] = field(default_factory=list)


def sequence(number: int) -> list[Step]:
    """Return the sequence of a seed: the same for ever, as long as the strategy is."""
    # The first example is always the simplest one: the last is taken.
    drawn = _Drawn()

    @seed(number)
    @settings(
        max_examples=4,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=tuple(HealthCheck),
    )
    @given(steps())
    def draw(found: list[Step]) -> None:
        drawn.found = found

    draw()
    return drawn.found
