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
from hetrl_api.job.model import Architecture
from hetrl_api.job.status import PreflightStatus
from hetrl_api.job.to_core import architecture_of, from_architecture, to_spec
from hetrl_api.load import parse
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_core.escape import one_line
from hetrl_core.job.known_dimensions import known_dimensions
from hetrl_core.job.spec import JobSpec
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
    """Add the dimensions that a preflight of the same model has read, unless the job gives them.

    Before that, a well-known model of the Hub is planned with those of the table.
    """
    if parsed.spec.model.architecture:
        return parsed
    if read := _read(parsed.spec, checked):
        return _with(parsed, read)
    if known := known_dimensions(parsed.spec.model):
        return _with(parsed, from_architecture(known.architecture), origin=known.origin)
    return parsed


def _read(spec: JobSpec, checked: str) -> Architecture | None:
    """Return the dimensions in a preflight's status, if it is of these models and data."""
    try:
        status = PreflightStatus.model_validate_json(checked)
    except ValidationError:
        return None  # There was none, or it is of another release.
    return status.architecture if status.digest == digest_of(request_of(spec)) else None


def _with(parsed: ParsedSpec, dimensions: Architecture, *, origin: str = "") -> ParsedSpec:
    # In the form of the API, both sources give a plan of the same key: a preflight that reads
    # what the table says causes no other search.
    model = replace(parsed.spec.model, architecture=architecture_of(dimensions))
    spec = replace(parsed.spec, model=model)
    return replace(parsed, spec=spec, dimensions_origin=origin)


def _parsed(text: str, created_at: datetime) -> tuple[ParsedSpec | None, str]:
    try:
        job = parse(HetRLJob, json.loads(text), is_stored=True)
        # A deadline counts from the job's creation; the planning service subtracts elapsed time.
        spec = to_spec(job, base_path=POD_ROOT, claims=None, now=created_at)
    except (InvalidObjectError, ValueError) as error:
        return None, str(error).replace("\n", "; ")
    except Exception as error:
        # The index would drop the job, and its status would stay empty for ever.
        return None, one_line(f"the spec cannot be read: {type(error).__name__}: {error}")
    return ParsedSpec(written=job.spec, spec=spec), ""
