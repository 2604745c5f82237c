"""What a running job's owner should know though nothing has failed."""

from hetrl_core.podset import PodSet
from hetrl_core.task import Role
from hetrl_operator.decide.conditions import Finding
from hetrl_operator.decide.pods import num_ready
from hetrl_operator.labels import ConditionType, Reason
from hetrl_operator.observed import Observed, PlanSeen, Wish


def degraded(seen: Observed, wish: Wish, plan: PlanSeen, sets: tuple[PodSet, ...]) -> Finding:
    """Return condition Degraded; of several reasons the most urgent one comes first."""
    for found in (_drift(seen, plan), _few_rollouts(seen, sets), _no_checkpoints(wish)):
        if found:
            return found
    return Finding(
        type=ConditionType.DEGRADED, holds=False, reason=Reason.AS_PLANNED, message="as planned"
    )


def _drift(seen: Observed, plan: PlanSeen) -> Finding | None:
    if plan.planned_for == seen.planning.spec_key:
        return None
    text = "the job was changed after it was planned; suspend and resume it to plan again"
    return _degraded(Reason.PLAN_DRIFT, text)


def _few_rollouts(seen: Observed, sets: tuple[PodSet, ...]) -> Finding | None:
    wanted = sum(each.num_pods for each in sets if each.role is Role.ROLLOUT)
    ready = num_ready(seen.pods, Role.ROLLOUT)
    if not 0 < ready < wanted:
        return None
    return _degraded(Reason.ROLLOUT_BELOW_DESIRED, f"{ready} of {wanted} rollout pods are ready")


def _no_checkpoints(wish: Wish) -> Finding | None:
    if wish.written.storage.checkpoints.persistent_volume_claim:
        return None
    text = (
        "spec.storage.checkpoints names no claim: checkpoints are lost with the trainer's pod, "
        "and a resumed job begins again"
    )
    return _degraded(Reason.CHECKPOINTS_NOT_DURABLE, text)


def _degraded(reason: str, message: str) -> Finding:
    return Finding(type=ConditionType.DEGRADED, holds=True, reason=reason, message=message)
