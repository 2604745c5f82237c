"""A lease with what is generated under it, and the group of one prompt that it belongs to.

These change as the simulation goes; which changes are allowed is the coordinator's to know.
"""

from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetrl_planner.simulator.replica import Replica


class Ending(Enum):
    """How a lease ends; each ends exactly once."""

    CONSUMED = auto()
    REJECTED = auto()
    """Too old, by the strict check."""

    WITHDRAWN = auto()
    """Taken back while it ran: begun under weights too old for the version just reached."""

    EXPIRED = auto()
    FILTERED = auto()
    """With its whole group."""

    FENCED = auto()
    """Of a history that ended with the trainer that was lost."""


class PromptGroup:
    """The trajectories of one prompt; ready when all are scored."""

    __slots__ = ("accepted", "num_scored")

    def __init__(self) -> None:
        self.accepted: list[Trajectory] = []
        self.num_scored = 0


class Trajectory:
    """One lease: its length, the versions of its oldest and newest token, what it waits for."""

    __slots__ = (
        "group", "is_scored", "lease_version", "num_tokens", "num_unscored", "replica",
        "start_mark", "versions",
    )  # fmt: skip

    def __init__(self, group: PromptGroup, replica: "Replica", num_tokens: int) -> None:
        self.group = group
        self.replica = replica
        self.lease_version = replica.version
        self.num_tokens = num_tokens
        self.start_mark = 0.0
        self.versions = (replica.version, replica.version)
        self.num_unscored = 0
        self.is_scored = False
