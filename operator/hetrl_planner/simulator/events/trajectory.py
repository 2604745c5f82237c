"""Trajectories, each generated under one lease, and prompt groups.

They are mutable; the coordinator makes the changes, and the ledger knows their replicas.
"""

from enum import Enum, auto


class LeaseEnd(Enum):
    """The ways in which a lease ends; each ends exactly once."""

    CONSUMED = auto()
    REJECTED = auto()
    """Too old, by the strict check."""

    WITHDRAWN = auto()
    """Taken back while it ran: begun under weights too old for the version just reached."""

    EXPIRED = auto()
    FILTERED = auto()
    """Filtered with its whole group."""

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
        "group",
        "is_scored",
        "lease_version",
        "num_tokens",
        "num_unscored",
        "start_mark",
        "versions",
    )

    start_mark: float
    """Set when it starts."""

    versions: tuple[int, int]
    """Set when it has been generated."""

    num_unscored: int
    """Stages that it still needs; set when it is handed to them."""

    def __init__(self, group: PromptGroup, version: int, num_tokens: int) -> None:
        self.group = group
        self.lease_version = version
        self.num_tokens = num_tokens
        self.is_scored = False
