"""The one word that ``kubectl get`` shows for a job, derived from its conditions."""

from collections.abc import Iterable, Mapping

from hetrl_api.job.status import Phase
from hetrl_operator.model.conditions import Finding
from hetrl_operator.model.reasons import ConditionType, Reason


def phase(findings: Iterable[Finding], *, plan_only: bool) -> Phase:
    """Return the phase; programs should read the conditions instead."""
    by_type = {each.type: each for each in findings}
    true = {each.type for each in by_type.values() if each.holds}
    suspended = by_type.get(ConditionType.SUSPENDED)
    is_queued = suspended is not None and suspended.reason == Reason.QUEUED
    for type_, word in _BY_CONDITION:
        if type_ in true and not (is_queued and type_ == ConditionType.SUSPENDED):
            return word
    if suspended and suspended.reason == Reason.SUSPENDING:
        return Phase.SUSPENDING
    if ConditionType.PLANNED not in true:
        return _without_plan(by_type.get(ConditionType.PLANNED))
    return Phase.PLANNED if plan_only else _with_plan(by_type)


def _with_plan(by_type: Mapping[str, Finding]) -> Phase:
    quota = by_type.get(ConditionType.QUOTA_RESERVED)
    if quota and not quota.holds and quota.reason != Reason.QUEUE_IGNORED:
        return Phase.QUEUED
    running = by_type.get(ConditionType.RUNNING)
    restarting = running is not None and running.reason == Reason.NOT_READY
    return Phase.RESTARTING if restarting else Phase.DEPLOYING


_BY_CONDITION = (
    (ConditionType.FAILED, Phase.FAILED),
    (ConditionType.COMPLETE, Phase.SUCCEEDED),
    (ConditionType.SUSPENDED, Phase.SUSPENDED),
    (ConditionType.RUNNING, Phase.RUNNING),
)


def _without_plan(planned: Finding | None) -> Phase:
    busy = planned is not None and planned.reason == Reason.PLANNING
    return Phase.PLANNING if busy else Phase.PENDING
