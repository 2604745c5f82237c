"""Which changes of a status can wait: those by which nothing has turned.

While pods come up, their numbers and the reasons that keep them change all the time; a write for
every one would be more than all other requests of the job together. When what waits is written is
left to the controller.
"""

from typing import Any

from hetrl_api.job.status import JobStatus
from hetrl_operator.model.actions import Decision


def can_wait(before: JobStatus, decision: Decision) -> bool:
    """Tell whether a decision's status can be written later.

    It can where nothing is announced, phase and plan are as they were told last, and every
    condition still says yes or no as it did, if for another reason.
    """
    if decision.status is None or decision.events:
        return False
    return _turning_points(before) == _turning_points(decision.status.status)


def _turning_points(status: JobStatus) -> tuple[Any, ...]:
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
