"""Reader of the coordinator's reports."""

from datetime import datetime

from hetrl_operator.model.observed import (
    ProgressSeen,
)
from hetrl_operator.model.parse.objects import Body

_NOTICE_CHARS = 1024


def progress_seen(report: Body, *, at: datetime) -> ProgressSeen:
    """Read the protocol's ``Progress`` message from JSON.

    Raises:
        ValueError: a field is missing or has the wrong type.
    """
    try:
        return ProgressSeen(
            step=int(report["step"]),
            total_steps=int(report["total_steps"]),
            policy_version=int(report.get("version", 0)),
            samples_per_second=float(report.get("samples_per_second", 0)),
            staleness_p95=float(report.get("staleness_p95", 0)),
            reward=float(report.get("reward_mean", 0)),
            eta_seconds=float(report.get("eta_seconds", 0)),
            received_at=at,
            finished=bool(report.get("finished", False)),
            outcome=str(report.get("outcome", "")),
            reason=str(report.get("reason", "")),
            message=str(report.get("message", "")),
            waiting_for=str(report.get("waiting_for", "")),
            notices=tuple(str(each)[:_NOTICE_CHARS] for each in report.get("notices", ())),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a progress report: {error!r}") from error
