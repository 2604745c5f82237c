"""The state of a job in a queue of Kueue. ``decide.kueue`` decides what follows from it."""

from hetrl_api.job.job import MANAGER
from hetrl_api.job.planning import PlanningMode
from hetrl_operator.model.kueue.admission import QueueingSeen
from hetrl_operator.model.observed import JobSeen


def is_ours(job: JobSeen) -> bool:
    """Tell whether ``spec.managedBy`` names this operator."""
    return job.parsed is None or job.parsed.written.managed_by == MANAGER


def is_queued(job: JobSeen, queueing: QueueingSeen) -> bool:
    """Tell whether a job runs only if a queue admits it; a job of mode PlanOnly needs no quota."""
    if queueing.off or not job.queue or job.parsed is None:
        return False
    return job.parsed.written.planning.mode is not PlanningMode.PLAN_ONLY


def waits(job: JobSeen, queueing: QueueingSeen) -> bool:
    """Tell whether a job's pods may not run yet, or no longer."""
    workload = queueing.workload
    return is_queued(job, queueing) and not (workload and workload.is_admitted)
