"""Commits of versions: what one may name, and what comes of it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hetrl_runtime.coordinator.rules.ledger import GroupLedger
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import ResumePoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A version is done; what came of it."""

    resume: ResumePoint
    consumed: tuple[DeliveredTrajectory, ...] = ()
    dropped_stale: int = 0
    """Of the buffered: too old for the new version."""

    withdrawn: int = 0
    """Leased trajectories that began with weights too old for the new version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRefused:
    """A commit that does not continue this history, and why."""

    reason: str


def objection(
    version: int,
    named: Sequence[TrajectoryId],
    *,
    handed: Collection[TrajectoryId],
    ledger: GroupLedger,
    most_groups_ahead: int,
) -> str:
    """Return why a commit does not continue this history; empty where it does.

    Args:
        version: the version that the trainer has made.
        named: trajectories that it consumed or discarded.
        handed: those of the batch that was handed out; empty: by another process, before a restart.
        ledger: the groups of this history.
        most_groups_ahead: how many groups after the ledger's a trainer may know of.
    """
    if version != ledger.version + 1:
        return f"version {version} does not follow version {ledger.version}"
    if len(set(named)) != len(named):
        return "a trajectory is named twice"
    if handed and not set(named) <= set(handed):
        return "a trajectory is named that was not in the batch"
    for identity in named:
        if not ledger.is_open(identity.group):
            return f"group {identity.group} was consumed before"
        if identity.group >= ledger.next_group + most_groups_ahead:
            return f"group {identity.group} was never leased"
    return ""
