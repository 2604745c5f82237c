"""The contract of a preflight: what it checks of a job, and what it reports.

The operator and ``hetrl check`` write the request; ``hetrl preflight`` answers with a report. On a
cluster the report is a pod's termination message, so it is limited in size and not trusted.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from typing import Any

from pydantic import TypeAdapter, ValidationError

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_core.job.architecture import ModelArchitecture
from hetrl_core.job.spec import DataSpec, Engine, JobSpec, ModelFiles

MAX_REPORT_BYTES = 4096
"""Kubernetes truncates a longer termination message."""

MODEL_INVALID = "ModelInvalid"
DATA_INVALID = "DataInvalid"
REWARD_INVALID = "RewardInvalid"

MAX_MESSAGE_CHARACTERS = 1000
MAX_NOTES = 10
MAX_NOTE_CHARACTERS = 200

_REASON = re.compile(r"[A-Z][A-Za-z0-9]{2,59}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightRequest:
    """What is checked: the models, the rows of data and the reward of a job."""

    model: ModelFiles
    engine: Engine
    algorithm: AlgorithmSpec
    data: DataSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightReport:
    """The result of a preflight."""

    passed: bool
    reason: str = ""
    """Why the job cannot run, as the reason of a condition; empty if it can."""

    message: str = ""
    """The same in words: field, value, limit and remedy."""

    notes: tuple[str, ...] = ()
    """What a user should know of a job that can run, with figures."""

    architecture: ModelArchitecture | None = None
    """The policy's dimensions, from its ``config.json``; None if they could not be read."""


def request_of(spec: JobSpec) -> PreflightRequest:
    """Return what is checked of a job."""
    model = spec.model
    return PreflightRequest(
        model=ModelFiles(source=model.source, is_path=model.is_path, revision=model.revision),
        engine=spec.engine,
        algorithm=spec.algorithm,
        data=spec.data,
    )


def request_to_json(request: PreflightRequest) -> str:
    """Write a request; equal requests give the same text."""
    return _requests().dump_json(request, indent=1).decode()


def request_from_json(text: str) -> PreflightRequest:
    """Read a request.

    Raises:
        ValueError: the text is not a request; the message names the fields that are wrong.
    """
    try:
        return _requests().validate_json(text)
    except ValidationError as error:
        raise ValueError(f"not a preflight request: {_fields(error)}") from error


def digest_of(request: PreflightRequest) -> str:
    """Digest a request: a job whose digest is unchanged is not checked again."""
    return sha256(request_to_json(request).encode()).hexdigest()[:32]


def report_to_json(report: PreflightReport) -> str:
    """Write a report within ``MAX_REPORT_BYTES``: the last notes are left out if it is longer."""
    report = _shortened(report)
    while True:
        text = _reports().dump_json(report, exclude_defaults=True).decode()
        if len(text.encode()) <= MAX_REPORT_BYTES:
            return text
        if report.notes:
            report = replace(report, notes=report.notes[:-1])
        else:
            # A character may take six bytes in JSON.
            report = replace(report, message=report.message[: len(report.message) // 2])


def report_from_json(text: str) -> PreflightReport:
    """Read a report of a pod that is not trusted: texts become short lines.

    Raises:
        ValueError: the text is not a report.
    """
    if len(text.encode()) > MAX_REPORT_BYTES:
        raise ValueError(f"a preflight report has at most {MAX_REPORT_BYTES} bytes")
    try:
        report = _reports().validate_json(text)
    except ValidationError as error:
        raise ValueError(f"not a preflight report: {_fields(error)}") from error
    if not report.passed and not _REASON.fullmatch(report.reason):
        raise ValueError(f"not a preflight report: reason: {report.reason[:60]!r}")
    return _shortened(report)


def _shortened(report: PreflightReport) -> PreflightReport:
    return replace(
        report,
        message=_one_line(report.message, MAX_MESSAGE_CHARACTERS),
        notes=tuple(_one_line(each, MAX_NOTE_CHARACTERS) for each in report.notes[:MAX_NOTES]),
    )


def _one_line(text: str, most: int) -> str:
    """Return a text without line breaks and control characters, cut where it is too long."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _fields(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(part) for part in each['loc']) or 'text'}: {each['msg']}"
        for each in error.errors(include_input=False, include_url=False)[:3]
    )


@cache
def _requests() -> TypeAdapter[PreflightRequest]:
    return TypeAdapter(PreflightRequest)


@cache
def _reports() -> TypeAdapter[PreflightReport]:
    return TypeAdapter[Any](PreflightReport)
