"""The parser of job specs. Each spec is parsed once, though its job's status changes often.

Validating a spec takes milliseconds. A parsed spec is cached while it is referenced, that is, while
the informer cache has its job with that spec. ``parse`` reads all other objects.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from hetrl_api.job.job import HetRLJob
from hetrl_api.job.to_core import to_spec
from hetrl_api.load import parse
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_operator.model.observed import ParsedSpec
from hetrl_operator.model.plain import plain

POD_ROOT = Path("/")
"""Base of a job's relative paths in its pods."""

_remembered: WeakValueDictionary[tuple[str, str], ParsedSpec] = WeakValueDictionary()
"""Parsed specs by the job's JSON and its creation time."""


def parse_spec(body: Mapping[str, Any]) -> tuple[ParsedSpec | None, str]:
    """Return the parsed spec of a HetRLJob; None and the reason if it is invalid."""
    metadata = body["metadata"]
    identity = {"name": metadata["name"], "namespace": metadata["namespace"]}
    kind = {"apiVersion": body["apiVersion"], "kind": body["kind"]}
    text = json.dumps({**kind, "metadata": identity, "spec": plain(body["spec"])})
    created_at = metadata["creationTimestamp"]
    known = _remembered.get((text, created_at))
    if known is not None:
        return known, ""
    found, problem = _parsed(text, datetime.fromisoformat(created_at))
    if found is not None:
        _remembered[text, created_at] = found
    return found, problem


def _parsed(text: str, created_at: datetime) -> tuple[ParsedSpec | None, str]:
    try:
        job = parse(HetRLJob, json.loads(text), is_stored=True)
        # A deadline counts from the job's creation; the planning service subtracts elapsed time.
        spec = to_spec(job, base_path=POD_ROOT, claims=None, now=created_at)
    except (InvalidObjectError, ValueError) as error:
        return None, str(error).replace("\n", "; ")
    if spec.model.architecture is None:
        # The operator reads neither volumes nor model hubs.
        return None, "spec.model.architecture is required on a cluster: plans are made of it"
    return ParsedSpec(written=job.spec, spec=spec), ""
