"""Debouncing of status writes: changes without a changed condition can wait.

While pods start, their numbers and waiting reasons change all the time. A write for each change
would be more than all other requests of the job. The reconciler decides when to write.
"""

from typing import Any

from hetrl_api.job.status import JobStatus
from hetrl_operator.model.actions import Decision


def can_wait(before: JobStatus, decision: Decision) -> bool:
    """Tell whether a decision's status can be written later.

    It can wait if there is no event, phase and plan are unchanged, and every condition has the same
    status as before, if for another reason.
    """
    if decision.status is None or decision.events:
        return False
    return _significant(before) == _significant(decision.status.status)


def _significant(status: JobStatus) -> tuple[Any, ...]:
    conditions = [(each.type, each.status) for each in status.conditions]
    rest = status.model_copy(
        update={
            "conditions": (),
            "pod_sets": (),
            "trainer": None,
            "rollout": None,
            "inference": None,
        }
    )
    return conditions, rest
