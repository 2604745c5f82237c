"""What evolution changes: who owns how many GPUs of which machine, and how tasks are cut.

GPUs of one machine are alike, so a genome counts them; ``decode`` gives out the numbers.
"""

from dataclasses import dataclass

from hetrl_core.plan.plan import TrainingMode
from hetrl_core.task import Task
from hetrl_planner.hetrl.genome.groupings import Grouping

Counts = tuple[tuple[int, ...], ...]
"""By machine, GPUs of each task group; what is left of the machine stays idle."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Levels 4 and 5 of a training task, where they are not left to ``decode``."""

    tensor: int
    num_stages: int
    mode: TrainingMode
    is_striped: bool
    """Whether neighbouring GPUs hold one stage of several replicas, or one replica's stages."""


Use = tuple[Task, int, int, int]
"""Task and machine; of its group's GPUs there, the first that it takes, and how many."""


@dataclass(frozen=True, slots=True)
class Genome:
    """One individual."""

    grouping: Grouping
    counts: Counts
    order: tuple[int, ...]
    """Every machine: the order in which training lays its stages on those that it has."""

    cuts: tuple[tuple[Task, Cut], ...] = ()
    """Training tasks whose cut is chosen; others get the one that is fastest alone."""

    splits: tuple[tuple[Task, int, tuple[int, int]], ...] = ()
    """Task, site, and its replicas' tensor and pipeline sizes there, where they are chosen."""

    uses: tuple[Use, ...] = ()
    """Machines of which a task does not take all that its group has."""

    orders: tuple[tuple[Task, tuple[int, ...]], ...] = ()
    """Training tasks that lay their stages in an order of machines of their own."""

    shifts: tuple[tuple[Task, int, int], ...] = ()
    """Task, and two of its stages: one layer goes from the first to the second, against the
    decoder's balance, where that leaves a layer."""

    leaves_room: bool = True
    """Whether tasks that are placed first leave those after them their part of each GPU, and
    generation its cache, or only what they do not need to be fast."""

    is_packed: bool = False
    """Whether the tasks of small groups are put together by ``packing``, whatever is chosen for
    them above."""
