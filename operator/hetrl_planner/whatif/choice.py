"""A listed alternative, planned as a plan of its own."""

from dataclasses import replace

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_planner.explain.rejected import FASTEST
from hetrl_planner.phase1.alternatives import alone, training_on


def names(snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """Return the names of the alternatives that may be chosen on a fleet."""
    kinds = sorted({each.gpu_kind for each in snapshot.machines})
    return (FASTEST, *map(alone, kinds), *map(training_on, kinds))


def choosing(job: JobSpec, name: str, snapshot: ClusterSnapshot) -> JobSpec | None:
    """Return the job restricted to an alternative, ``None`` if the fleet has none of that name."""
    if name == FASTEST:
        return replace(job, planning=replace(job.planning, tolerance_percent=0.0))
    for kind in sorted({each.gpu_kind for each in snapshot.machines}):
        if name == alone(kind):
            return replace(job, resources=replace(job.resources, only_kind=kind))
        if name == training_on(kind):
            return replace(job, resources=replace(job.resources, only_training_kind=kind))
    return None
