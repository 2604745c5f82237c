"""The parser of job specs. Each spec is parsed once, though its job's status changes often.

Validating a spec takes milliseconds. A parsed spec is cached while it is referenced, that is, while
the informer cache has its job with that spec. ``parse`` reads all other objects.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from pydantic import ValidationError

from hetrl_api.job.job import HetRLJob
from hetrl_api.job.status import PreflightStatus
from hetrl_api.job.to_core import architecture_of, to_spec
from hetrl_api.load import parse
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_core.preflight import digest_of, request_of
from hetrl_operator.model.observed import ParsedSpec
from hetrl_operator.model.plain import plain

POD_ROOT = Path("/")
"""Base of a job's relative paths in its pods."""

_remembered: WeakValueDictionary[tuple[str, str, str], ParsedSpec] = WeakValueDictionary()
"""Parsed specs by the job's JSON, its creation time and its preflight."""


def parse_spec(body: Mapping[str, Any]) -> tuple[ParsedSpec | None, str]:
    """Return the parsed spec of a HetRLJob; None and the reason if it is invalid."""
    metadata = body["metadata"]
    identity = {"name": metadata["name"], "namespace": metadata["namespace"]}
    kind = {"apiVersion": body["apiVersion"], "kind": body["kind"]}
    text = json.dumps({**kind, "metadata": identity, "spec": plain(body["spec"])})
    created_at = metadata["creationTimestamp"]
    checked = json.dumps(plain((body.get("status") or {}).get("preflight") or {}))
    key = (text, created_at, checked)
    known = _remembered.get(key)
    if known is not None:
        return known, ""
    found, problem = _parsed(text, datetime.fromisoformat(created_at))
    if found is not None:
        found = _with_architecture(found, checked)
        _remembered[key] = found
    return found, problem


def _with_architecture(parsed: ParsedSpec, checked: str) -> ParsedSpec:
    """Add the dimensions that a preflight of the same model has read, unless the job gives them."""
    if parsed.spec.model.architecture:
        return parsed
    try:
        status = PreflightStatus.model_validate_json(checked)
    except ValidationError:
        return parsed  # There was none, or it is of another release.
    if status.architecture is None or status.digest != digest_of(request_of(parsed.spec)):
        return parsed
    model = replace(parsed.spec.model, architecture=architecture_of(status.architecture))
    return replace(parsed, spec=replace(parsed.spec, model=model))


def _parsed(text: str, created_at: datetime) -> tuple[ParsedSpec | None, str]:
    try:
        job = parse(HetRLJob, json.loads(text), is_stored=True)
        # A deadline counts from the job's creation; the planning service subtracts elapsed time.
        spec = to_spec(job, base_path=POD_ROOT, claims=None, now=created_at)
    except (InvalidObjectError, ValueError) as error:
        return None, str(error).replace("\n", "; ")
    return ParsedSpec(written=job.spec, spec=spec), ""
