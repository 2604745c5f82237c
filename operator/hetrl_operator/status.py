"""The status of a HetRLJob as a value, and its way to and from the object.

Which conditions hold is decided elsewhere; here is only how they are written down.
Times are seconds since the epoch inside, RFC 3339 in the object.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One ``metav1.Condition``."""

    type: str
    holds: bool
    reason: str
    message: str
    since: float
    """When it last changed between holding and not."""

    observed_generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatus:
    """What ``kubectl get`` shows of the plan."""

    name: str
    hash: str
    strategy: str
    predicted_step_seconds: float
    predicted_samples_per_second: float
    dollars_per_hour: float
    bottleneck: str
    gap: float | None
    num_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressStatus:
    """How far the run is."""

    step: int
    total_steps: int
    samples_per_second: float
    policy_version: int
    staleness_p95: float
    reward: float
    eta_seconds: int
    last_update: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetStatus:
    """Readiness of one pod set."""

    name: str
    role: str
    gpu_kind: str
    desired: int
    ready: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """Everything under ``.status``."""

    observed_generation: int = 0
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    plan: PlanStatus | None = None
    progress: ProgressStatus | None = None
    pod_sets: tuple[PodSetStatus, ...] = ()
    replicas: int = 0
    """Rollout pods there are, for ``/scale``."""

    selector: str = ""
    start_time: float | None = None
    completion_time: float | None = None

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of that type, if it was ever set."""
        return next((each for each in self.conditions if each.type == type_), None)

    def holds(self, type_: str) -> bool:
        """Tell whether a condition is there and true."""
        found = self.condition(type_)
        return found is not None and found.holds

    @classmethod
    def from_object(cls, status: Mapping[str, Any]) -> Self:
        """Read ``.status`` of a HetRLJob; what is missing or foreign is left out."""
        plan, progress = status.get("plan"), status.get("progress")
        return cls(
            observed_generation=int(status.get("observedGeneration", 0)),
            phase=str(status.get("phase", "")),
            conditions=tuple(_condition(each) for each in status.get("conditions", ())),
            plan=_plan(plan) if plan else None,
            progress=_progress(progress) if progress else None,
            pod_sets=tuple(_pod_set(each) for each in status.get("podSets", ())),
            replicas=int(status.get("replicas", 0)),
            selector=str(status.get("selector", "")),
            start_time=_seconds(status.get("startTime")),
            completion_time=_seconds(status.get("completionTime")),
        )

    def to_object(self) -> dict[str, Any]:
        """Write ``.status``; fields without a value are left out."""
        written: dict[str, Any] = {
            "observedGeneration": self.observed_generation,
            "phase": self.phase,
            "conditions": [_condition_object(each) for each in self.conditions],
            "podSets": [_pod_set_object(each) for each in self.pod_sets],
            "replicas": self.replicas,
            "selector": self.selector,
            "plan": _plan_object(self.plan) if self.plan else None,
            "progress": _progress_object(self.progress) if self.progress else None,
            "startTime": _rfc3339(self.start_time),
            "completionTime": _rfc3339(self.completion_time),
        }
        return {name: value for name, value in written.items() if value is not None}


def seconds(text: str) -> float:
    """Read an RFC 3339 time as the API server writes it, to seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def rfc3339(at: float) -> str:
    """Write a time as the API server does, in whole seconds."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(text: object) -> float | None:
    return seconds(text) if isinstance(text, str) else None


def _rfc3339(at: float | None) -> str | None:
    return None if at is None else rfc3339(at)


def _condition(each: Mapping[str, Any]) -> Condition:
    return Condition(
        type=str(each["type"]),
        holds=each["status"] == "True",
        reason=str(each.get("reason", "")),
        message=str(each.get("message", "")),
        since=seconds(each["lastTransitionTime"]),
        observed_generation=int(each.get("observedGeneration", 0)),
    )


def _condition_object(each: Condition) -> dict[str, Any]:
    return {
        "type": each.type,
        "status": "True" if each.holds else "False",
        "reason": each.reason,
        "message": each.message,
        "lastTransitionTime": rfc3339(each.since),
        "observedGeneration": each.observed_generation,
    }


def _plan(each: Mapping[str, Any]) -> PlanStatus:
    return PlanStatus(
        name=str(each.get("name", "")),
        hash=str(each.get("hash", "")),
        strategy=str(each.get("strategy", "")),
        predicted_step_seconds=float(each.get("predictedStepSeconds", 0)),
        predicted_samples_per_second=float(each.get("predictedSamplesPerSecond", 0)),
        dollars_per_hour=float(each.get("dollarsPerHour", 0)),
        bottleneck=str(each.get("bottleneck", "")),
        gap=None if each.get("gap") is None else float(each["gap"]),
        num_gpus=int(each.get("numGPUs", 0)),
    )


def _plan_object(plan: PlanStatus) -> dict[str, Any]:
    written = {
        "name": plan.name,
        "hash": plan.hash,
        "strategy": plan.strategy,
        "predictedStepSeconds": round(plan.predicted_step_seconds, 3),
        "predictedSamplesPerSecond": round(plan.predicted_samples_per_second, 3),
        "dollarsPerHour": round(plan.dollars_per_hour, 2),
        "bottleneck": plan.bottleneck,
        "gap": None if plan.gap is None else round(plan.gap, 4),
        "numGPUs": plan.num_gpus,
    }
    return {name: value for name, value in written.items() if value is not None}


def _progress(each: Mapping[str, Any]) -> ProgressStatus:
    return ProgressStatus(
        step=int(each.get("step", 0)),
        total_steps=int(each.get("totalSteps", 0)),
        samples_per_second=float(each.get("samplesPerSecond", 0)),
        policy_version=int(each.get("policyVersion", 0)),
        staleness_p95=float(each.get("stalenessP95", 0)),
        reward=float(each.get("reward", 0)),
        eta_seconds=int(each.get("etaSeconds", 0)),
        last_update=_seconds(each.get("lastUpdateTime")) or 0.0,
    )


def _progress_object(progress: ProgressStatus) -> dict[str, Any]:
    return {
        "step": progress.step,
        "totalSteps": progress.total_steps,
        "samplesPerSecond": round(progress.samples_per_second, 3),
        "policyVersion": progress.policy_version,
        "stalenessP95": round(progress.staleness_p95, 3),
        "reward": round(progress.reward, 4),
        "etaSeconds": progress.eta_seconds,
        "lastUpdateTime": rfc3339(progress.last_update),
    }


def _pod_set(each: Mapping[str, Any]) -> PodSetStatus:
    return PodSetStatus(
        name=str(each["name"]),
        role=str(each.get("role", "")),
        gpu_kind=str(each.get("gpuKind", "")),
        desired=int(each.get("desired", 0)),
        ready=int(each.get("ready", 0)),
    )


def _pod_set_object(each: PodSetStatus) -> dict[str, Any]:
    return {
        "name": each.name,
        "role": each.role,
        "gpuKind": each.gpu_kind,
        "desired": each.desired,
        "ready": each.ready,
    }
