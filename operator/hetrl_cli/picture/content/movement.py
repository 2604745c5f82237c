"""Data movement of a plan, as values: activations between machines, the rest between regions."""

from dataclasses import dataclass
from enum import StrEnum

from hetrl_core.task import Task


class FlowKind(StrEnum):
    """What moves."""

    TRAJECTORIES = "trajectories"
    WEIGHTS = "weights"
    PIPELINE = "pipeline"
    GRADIENTS = "gradients"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """Activations from the machines of one card to those of another."""

    task: Task
    source: int
    """The card's number, as ``target``."""

    target: int
    num_replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionFlow:
    """What moves from a region to another, or inside one."""

    kind: FlowKind
    source: str
    target: str
    amount: str
    """How much or how long, in words."""

    stays: bool = False
    """Inside one region: among machines that both train and generate."""

    is_mutual: bool = False
    """As much flows back."""

    task: Task | None = None
    """Whose pipeline it is."""
