"""What jobs ask, parsed once: a job is seen again at every change of its status.

Checking the rules of a spec takes milliseconds. A wish is remembered for as long as somebody has
it, which is as long as a watch shows its job with that spec. Other objects are left to ``observe``.
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
"""What relative paths of a job are relative to in its pods."""

_remembered: WeakValueDictionary[tuple[str, str], ParsedSpec] = WeakValueDictionary()
"""By a job's text and the time of its creation."""


def parse_spec(body: Mapping[str, Any]) -> tuple[ParsedSpec | None, str]:
    """Return what a HetRLJob asks; None and why, where it cannot be worked on."""
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
        job = parse(HetRLJob, json.loads(text))
        # A deadline counts from the job's creation; what is left of it is planning's to say.
        spec = to_spec(job, base_path=POD_ROOT, claims=None, now=created_at)
    except (InvalidObjectError, ValueError) as error:
        return None, str(error).replace("\n", "; ")
    if spec.model.architecture is None:
        # The operator reads neither volumes nor model hubs.
        return None, "spec.model.architecture is required on a cluster: plans are made of it"
    return ParsedSpec(written=job.spec, spec=spec), ""
