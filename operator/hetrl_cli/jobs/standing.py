"""How a job stands, in words and short figures: what tables and lines are made of.

Reads the API's object as it is, so that a command line and an operator of two releases
understand each other as far as they agree.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hetrl_operator.model.reasons import ConditionType

UNKNOWN = "-"
_FINISHED = {ConditionType.COMPLETE: True, ConditionType.FAILED: False}


@dataclass(frozen=True, slots=True)
class Standing:
    """A HetRLJob as the API server gives it."""

    job: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.job["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Where it is."""
        return str(self.job["metadata"].get("namespace", ""))

    @property
    def status(self) -> Mapping[str, Any]:
        """What the operator saw last; empty before it has."""
        return self.job.get("status") or {}

    @property
    def phase(self) -> str:
        """Where it is in its life, for people."""
        return str(self.status.get("phase") or "Pending")

    @property
    def progress(self) -> Mapping[str, Any]:
        """How far training has come."""
        return self.status.get("progress") or {}

    @property
    def plan(self) -> Mapping[str, Any]:
        """The plan in force, in short."""
        return self.status.get("plan") or {}

    @property
    def conditions(self) -> list[Mapping[str, Any]]:
        """What holds and what does not."""
        return list(self.status.get("conditions") or ())

    def condition(self, kind: str) -> Mapping[str, Any] | None:
        """Return one condition if it is known."""
        return next((each for each in self.conditions if each.get("type") == kind), None)

    @property
    def has_succeeded(self) -> bool | None:
        """Whether it ended well; ``None`` while it has not ended."""
        for kind, is_good in _FINISHED.items():
            found = self.condition(kind)
            if found and found.get("status") == "True":
                return is_good
        return None

    @property
    def steps(self) -> str:
        """Versions made, of those to make."""
        total = self.progress.get("totalSteps") or self.job["spec"]["training"]["steps"]
        return f"{self.progress.get('step', 0)}/{total}"

    @property
    def share_done(self) -> float:
        """Versions made, as a share."""
        total = self.progress.get("totalSteps") or self.job["spec"]["training"]["steps"]
        return float(self.progress.get("step", 0)) / float(total)

    @property
    def max_staleness(self) -> str:
        """The bound, where the spec says it."""
        return str((self.job["spec"].get("algorithm") or {}).get("maxStaleness", UNKNOWN))

    @property
    def seconds_left(self) -> float | None:
        """Until the last version, as it was reported; ``None`` where nobody knows."""
        seconds = self.progress.get("etaSeconds")
        return seconds if isinstance(seconds, int | float) and self.has_succeeded is None else None

    def ready(self, role: str) -> str:
        """Return ready and wanted pods of a role."""
        pods = self.status.get(role) or {}
        if not pods:
            return UNKNOWN
        return f"{pods.get('readyReplicas', 0)}/{pods.get('replicas', 0)}"

    @property
    def why(self) -> str:
        """The message of what keeps the job from running, or of how it ended."""
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


def pod_columns(jobs: Iterable[Standing]) -> dict[str, str]:
    """Return the roles whose pods a table of jobs counts, by its titles."""
    found = {"trainers": "trainer", "rollouts": "rollout"}
    has_inference = any("inference" in each.status for each in jobs)
    return found | ({"inference": "inference"} if has_inference else {})


def figure(value: object, form: str = ".2f") -> str:
    """Return a number in short, or a dash where it is not known."""
    return format(value, form) if isinstance(value, int | float) else UNKNOWN


def moment(text: object) -> datetime | None:
    """Return a time as the API server writes it."""
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
