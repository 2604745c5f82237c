"""Which roles' pods are to exist now: all, none, or all but the trainers.

Suspending stops the trainers first: they write a checkpoint on SIGTERM, and the last
version that they commit still needs its coordinator.
"""

from hetrl_core.task import Role
from hetrl_operator.model.conditions import Finding, condition
from hetrl_operator.model.observed import Observed
from hetrl_operator.model.reasons import ConditionType, Reason

ALL_ROLES = frozenset(Role)
NO_ROLE: frozenset[Role] = frozenset()


def roles_while_stopping(seen: Observed) -> frozenset[Role]:
    """Return the roles whose pods are still needed while a job is being stopped."""
    if any(pod.role is Role.TRAINER for pod in seen.pods):
        return ALL_ROLES - {Role.TRAINER}
    return NO_ROLE


def suspended_finding(seen: Observed) -> Finding:
    """Return condition Suspended of a job that is to be suspended."""
    trainers = sum(pod.role is Role.TRAINER for pod in seen.pods)
    if trainers:
        text = f"{trainers} trainer pods write a checkpoint and stop"
        return _suspended(Reason.SUSPENDING, text)
    if seen.pods:
        return _suspended(Reason.SUSPENDING, f"{len(seen.pods)} pods stop")
    return Finding(
        type=ConditionType.SUSPENDED,
        holds=True,
        reason=Reason.SUSPENDED,
        message="no pod is left, and no GPU is held",
    )


def resumed_finding(seen: Observed) -> tuple[Finding, ...]:
    """Return condition Suspended of a job that is not to be suspended, if it ever was."""
    if condition(seen.job.status, ConditionType.SUSPENDED) is None:
        return ()
    return (_suspended(Reason.RESUMED, "the job goes on from its last checkpoint"),)


def _suspended(reason: str, message: str) -> Finding:
    return Finding(type=ConditionType.SUSPENDED, holds=False, reason=reason, message=message)
