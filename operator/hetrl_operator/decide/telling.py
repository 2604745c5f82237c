"""Which changes of a status can wait: those that only count pods.

A job of hundreds of pods sees each of them come up; a write for every one would be more than all
other requests of the job together. When what waits is written is left to the controller.
"""

from typing import Any

from hetrl_api.status import JobStatus


def can_wait(before: JobStatus, after: JobStatus) -> bool:
    """Tell whether nothing has turned: phase, reasons and plan are as they were told last."""
    return _turning_points(before) == _turning_points(after)


def _turning_points(status: JobStatus) -> tuple[Any, ...]:
    conditions = [(each.type, each.status, each.reason) for each in status.conditions]
    rest = status.model_copy(
        update={"conditions": (), "pod_sets": (), "trainer": None, "rollout": None}
    )
    return conditions, rest
