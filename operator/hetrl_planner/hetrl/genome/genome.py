"""Genomes, which evolution changes: GPU counts of groups by machine, and cuts of tasks.

GPUs of one machine are equal, so a genome counts them; ``decode`` assigns the numbers.
"""

from dataclasses import dataclass

from hetrl_core.plan.plan import TrainingMode
from hetrl_core.task import Task
from hetrl_planner.hetrl.genome.groupings import Grouping

Counts = tuple[tuple[int, ...], ...]
"""By machine, GPUs of each task group; what is left of the machine stays idle."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Levels 4 and 5 of a training task, if not left to ``decode``."""

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
    """The order of all machines in which training lays its stages."""

    cuts: tuple[tuple[Task, Cut], ...] = ()
    """Chosen cuts of training tasks; others get the one that is fastest alone."""

    splits: tuple[tuple[Task, int, tuple[int, int]], ...] = ()
    """Task, site, and its replicas' tensor and pipeline sizes there, where they are chosen."""

    uses: tuple[Use, ...] = ()
    """Machines on which a task takes only a part of its group's GPUs."""

    orders: tuple[tuple[Task, tuple[int, ...]], ...] = ()
    """Orders of machines for single training tasks."""

    shifts: tuple[tuple[Task, int, int], ...] = ()
    """Task, and two of its stages: one layer goes from the first to the second, against the
    decoder's balance, where that leaves a layer."""

    leaves_room: bool = True
    """Whether tasks that are placed first leave later ones their part of each GPU, and
    generation its cache, or only the memory that they do not need to be fast."""

    is_packed: bool = False
    """Whether ``packing`` places the tasks of small groups, overriding the choices for them
    above."""
