"""The staleness bound: how far a trajectory may lag behind the policy that trains on it.

Coordinator, trainer and simulator use the same two rules. Admission is a rate limit: it keeps fresh
work from becoming stale on average. The strict check tests each trajectory again when it is
consumed, because a single long response can outlive any rate limit. Callers keep the counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hetrl_core.limits import at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The counts that admission needs, which must be saved and restored together.

    Restoring ``version`` without ``accepted`` would inflate the capacity by a batch per
    version and let the run drift past its bound unnoticed.
    """

    version: int
    """The policy version being trained: publications of weights so far."""

    accepted: int
    """Trajectories accepted since version 0, consumed or still buffered."""

    running: int
    """Trajectories leased to rollout workers and not yet returned."""

    def __post_init__(self) -> None:
        if self.version >= 0 and self.accepted >= 0 and self.running >= 0:
            return
        for name in ("version", "accepted", "running"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be >= 0, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessBound:
    """The largest staleness that a run accepts, in policy versions. Zero is on-policy."""

    max_staleness: int

    def __post_init__(self) -> None:
        at_least("maxStaleness", self.max_staleness, 0)

    def capacity(
        self, ledger: Ledger, *, worker_version: int, batch_size: int, max_concurrent: int
    ) -> int:
        """Count the trajectories that may still be leased to a worker, never below zero.

        ``min(max_concurrent - running, (η + w + 1)·B - accepted - running)``: after AReaL's
        staleness manager, for which version ``v`` trains while at most ``η`` further batches are
        on their way. There ``w`` is ``v``; here it is the version of the worker's weights, since
        batches are made in the order of acceptance: what is leased next belongs to batch
        ``(accepted + running) // B``, for which those weights must not be too old. Rejected work
        is in neither count, so it gives its place back.
        """
        by_workers = max(1, max_concurrent) - ledger.running
        promised = self.max_staleness + min(worker_version, ledger.version) + 1
        by_bound = promised * max(1, batch_size) - ledger.accepted - ledger.running
        return max(0, min(by_workers, by_bound))

    def oldest_useful_version(self, ledger: Ledger, *, batch_size: int) -> int:
        """Return the oldest weights whose new work would not be too stale; negative at first."""
        return (ledger.accepted + ledger.running) // max(1, batch_size) - self.max_staleness

    def admits(self, staleness: int) -> bool:
        """Tell whether a trajectory of this staleness may be trained on."""
        return staleness <= self.max_staleness


def staleness(token_versions: Sequence[int], *, version: int) -> int:
    """Return the versions between training ``version`` and the oldest trained token.

    ``token_versions`` are the policy versions that sampled each response token, in order;
    an interrupted trajectory has several.

    Raises:
        ValueError: no token was sampled, or a token comes from the future.
    """
    if not token_versions:
        raise ValueError("a trajectory without sampled tokens has no staleness")
    if max(token_versions) > version:
        raise ValueError(
            f"a token was sampled by version {max(token_versions)}, after version {version}"
        )
    return version - min(token_versions)
