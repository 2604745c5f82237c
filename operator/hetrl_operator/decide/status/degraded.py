"""Condition Degraded: problems of a running job that are no failures."""

from hetrl_core.plan.pod_sets import PodSet
from hetrl_core.task import Role
from hetrl_operator.decide.plan.planned import Planned
from hetrl_operator.model.conditions import Finding
from hetrl_operator.model.observed import Observed, ParsedSpec
from hetrl_operator.model.pods import num_ready, num_wanted
from hetrl_operator.model.reasons import ConditionType, Reason

_BELOW_DESIRED = {
    Role.ROLLOUT: Reason.ROLLOUT_BELOW_DESIRED,
    Role.INFERENCE: Reason.INFERENCE_BELOW_DESIRED,
}


def degraded(
    seen: Observed, parsed: ParsedSpec, planned: Planned, sets: tuple[PodSet, ...]
) -> Finding:
    """Return condition Degraded; of several reasons the most urgent one comes first."""
    for found in (
        _lost(seen),
        _drift(planned),
        *(_few_workers(seen, sets, role) for role in _BELOW_DESIRED),
        _no_checkpoints(parsed),
    ):
        if found:
            return found
    return Finding(
        type=ConditionType.DEGRADED, holds=False, reason=Reason.AS_PLANNED, message="as planned"
    )


def _lost(seen: Observed) -> Finding | None:
    lost = sorted({pod.node for pod in seen.pods} & seen.lost_nodes.keys())
    if not lost:
        return None
    text = ", ".join(f"{name} since {seen.lost_nodes[name]:%H:%M:%S} UTC" for name in lost)
    return _degraded(Reason.NODE_LOST, f"nodes that do not answer: {text}")


def _drift(planned: Planned) -> Finding | None:
    return _degraded(Reason.PLAN_DRIFT, planned.drift_message) if planned.drift_message else None


def _few_workers(seen: Observed, sets: tuple[PodSet, ...], role: Role) -> Finding | None:
    wanted, ready = num_wanted(sets, role), num_ready(seen.pods, role)
    if not 0 < ready < wanted:
        return None
    return _degraded(_BELOW_DESIRED[role], f"{ready} of {wanted} {role} pods are ready")


def _no_checkpoints(parsed: ParsedSpec) -> Finding | None:
    if parsed.written.storage.checkpoints.persistent_volume_claim:
        return None
    text = (
        "spec.storage.checkpoints names no claim: checkpoints are lost with the trainer's pod, "
        "and a resumed job begins again"
    )
    return _degraded(Reason.CHECKPOINTS_NOT_DURABLE, text)


def _degraded(reason: str, message: str) -> Finding:
    return Finding(type=ConditionType.DEGRADED, holds=True, reason=reason, message=message)
