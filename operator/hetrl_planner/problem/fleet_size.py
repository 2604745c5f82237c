"""Sizes of fleets and task groups, by which searches choose their effort."""

from enum import IntEnum


class MostGpus(IntEnum):
    """The most GPUs of each size. All of them are ours."""

    PACKED_GROUP = 5
    """A task group of a small fleet whose tasks are placed by branch and bound: the ways of a task
    grow about fivefold with each GPU."""

    SMALL = 8
    """A fleet or group on which everything can be tried: tasks are packed on single GPUs, every cut
    is timed, the ILP prices many choices, and phase 1 hastens its steps. Larger fleets have GPUs to
    spare, and evolution refines another search's result there."""

    LISTED = 32
    """A fleet on which all neighbours of a genome can be listed, so that evolution ends with a
    descent."""

    WHOLE = 64
    """A fleet that is searched whole. Larger ones are planned by tiles of about this size."""

    PLAYED = 1024
    """A fleet whose finalists are simulated. Larger ones have many rollouts, which take long."""

    EVOLVED = 2048
    """A fleet on which evolution runs. Larger ones are left to phase 1 and to tiles, whose effort
    hardly grows with the machines."""
