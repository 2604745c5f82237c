"""A read-only view of a HetRLJob for display: its state in words and short figures.

It reads the raw object, so that a command line works with an operator of another release in all
fields that both know.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hetrl_operator.model.reasons import ConditionType

UNKNOWN = "-"
_FINISHED = {ConditionType.COMPLETE: True, ConditionType.FAILED: False}


@dataclass(frozen=True, slots=True)
class JobView:
    """A HetRLJob as the API server gives it."""

    job: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.job["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.job["metadata"].get("namespace", ""))

    @property
    def status(self) -> Mapping[str, Any]:
        """The status that the operator wrote last; empty before the first."""
        return self.job.get("status") or {}

    @property
    def phase(self) -> str:
        """Its phase, for people."""
        return str(self.status.get("phase") or "Pending")

    @property
    def progress(self) -> Mapping[str, Any]:
        """The progress of training."""
        return self.status.get("progress") or {}

    @property
    def plan(self) -> Mapping[str, Any]:
        """A summary of the active plan."""
        return self.status.get("plan") or {}

    @property
    def conditions(self) -> list[Mapping[str, Any]]:
        """Its conditions."""
        return list(self.status.get("conditions") or ())

    def condition(self, kind: str) -> Mapping[str, Any] | None:
        """Return the condition of a type, if there is one."""
        return next((each for each in self.conditions if each.get("type") == kind), None)

    @property
    def has_succeeded(self) -> bool | None:
        """Whether it has succeeded; ``None`` before it has ended."""
        for kind, is_good in _FINISHED.items():
            found = self.condition(kind)
            if found and found.get("status") == "True":
                return is_good
        return None

    @property
    def steps(self) -> str:
        """Finished and total steps."""
        total = self.progress.get("totalSteps") or self.job["spec"]["training"]["steps"]
        return f"{self.progress.get('step', 0)}/{total}"

    @property
    def share_done(self) -> float:
        """Share of the steps that are finished."""
        total = self.progress.get("totalSteps") or self.job["spec"]["training"]["steps"]
        return float(self.progress.get("step", 0)) / float(total)

    @property
    def max_staleness(self) -> str:
        """The bound, if the spec sets it."""
        return str((self.job["spec"].get("algorithm") or {}).get("maxStaleness", UNKNOWN))

    @property
    def seconds_left(self) -> float | None:
        """Reported seconds until the last step; ``None`` if unknown."""
        seconds = self.progress.get("etaSeconds")
        return seconds if isinstance(seconds, int | float) and self.has_succeeded is None else None

    def ready(self, role: str) -> str:
        """Return ready and desired pods of a role."""
        pods = self.status.get(role) or {}
        if not pods:
            return UNKNOWN
        return f"{pods.get('readyReplicas', 0)}/{pods.get('replicas', 0)}"

    @property
    def why(self) -> str:
        """Reason and message of the condition that keeps the job from running, or that ended it."""
        for kind, wanted in (
            (ConditionType.FAILED, "False"),
            (ConditionType.ACCEPTED, "True"),
            (ConditionType.PLANNED, "True"),
            (ConditionType.RESOURCES_CREATED, "True"),
            (ConditionType.TRAINER_READY, "True"),
            (ConditionType.ROLLOUT_READY, "True"),
            (ConditionType.INFERENCE_READY, "True"),
            (ConditionType.DEGRADED, "False"),
        ):
            found = self.condition(kind)
            if found and found.get("status") != wanted:
                return f"{found.get('reason')}: {found.get('message')}"
        return ""


def pod_columns(jobs: Iterable[JobView]) -> dict[str, str]:
    """Return the roles whose pods a table of jobs counts, by its titles."""
    found = {"trainers": "trainer", "rollouts": "rollout"}
    has_inference = any("inference" in each.status for each in jobs)
    return found | ({"inference": "inference"} if has_inference else {})


def figure(value: object, form: str = ".2f") -> str:
    """Format a number, or return a dash if it is unknown."""
    return format(value, form) if isinstance(value, int | float) else UNKNOWN


def moment(text: object) -> datetime | None:
    """Parse a time as the API server writes it."""
    return datetime.fromisoformat(str(text)) if text else None


def ago(text: object, *, now: datetime | None = None) -> str:
    """Return how long ago a time was, as ``kubectl`` says it: ``4m``, ``3h12m``, ``5d``."""
    then = moment(text)
    if then is None:
        return UNKNOWN
    return span(((now or datetime.now(UTC)) - then).total_seconds())


def span(seconds: float) -> str:
    """Return a duration in its two largest units."""
    left = max(0, int(seconds))
    units = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
    for number, (unit, size) in enumerate(units):
        if left >= size or unit == "s":
            whole, rest = divmod(left, size)
            following = units[number + 1 : number + 2]
            lesser = [f"{rest // small}{name}" for name, small in following if rest // small]
            return f"{whole}{unit}" + "".join(lesser)
    return "0s"
