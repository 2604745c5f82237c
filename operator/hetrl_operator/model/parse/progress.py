"""Reader of the coordinator's reports."""

import math
from datetime import datetime
from typing import Any

from hetrl_core.escape import one_line
from hetrl_operator.model.observed import ProgressSeen
from hetrl_operator.model.parse.objects import Body

_WORD_CHARS, _NOTICE_CHARS, _MESSAGE_CHARS = 64, 1024, 4096
_MOST_NOTICES = 8
_LARGEST_WHOLE = 2**63 - 1
"""Of a status, which the API server keeps as int64."""


def progress_seen(report: Body, *, at: datetime) -> ProgressSeen:
    """Read the protocol's ``Progress`` message from JSON.

    Raises:
        ValueError: a field is missing, has the wrong type or is a number that cannot be.
    """
    try:
        return ProgressSeen(
            step=_whole("step", report["step"]),
            total_steps=_whole("total_steps", report["total_steps"]),
            policy_version=_whole("version", report.get("version", 0)),
            samples_per_second=_finite("samples_per_second", report.get("samples_per_second", 0)),
            staleness_p95=_finite("staleness_p95", report.get("staleness_p95", 0)),
            reward=_finite("reward_mean", report.get("reward_mean", 0)),
            eta_seconds=_finite("eta_seconds", report.get("eta_seconds", 0)),
            received_at=at,
            finished=bool(report.get("finished", False)),
            outcome=one_line(str(report.get("outcome", "")), most=_WORD_CHARS),
            reason=one_line(str(report.get("reason", "")), most=_WORD_CHARS),
            message=one_line(str(report.get("message", "")), most=_MESSAGE_CHARS),
            waiting_for=one_line(str(report.get("waiting_for", "")), most=_MESSAGE_CHARS),
            notices=tuple(
                one_line(str(each), most=_NOTICE_CHARS)
                for each in tuple(report.get("notices", ()))[:_MOST_NOTICES]
            ),
        )
    except (AttributeError, KeyError, OverflowError, TypeError) as error:
        raise ValueError(f"not a progress report: {error!r}") from error


def _whole(name: str, value: Any) -> int:
    number = int(value)
    if not 0 <= number <= _LARGEST_WHOLE:
        raise ValueError(f"{name} must be from 0 to {_LARGEST_WHOLE}, got {str(value)[:40]}")
    return number


def _finite(name: str, value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {str(value)[:40]}")
    return number
