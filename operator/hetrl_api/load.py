"""From text to values: files of jobs, plans, fleets and pipelines, with every mistake named.

What the API server would refuse is refused here too, by the same models and rules.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from hetrl_api.fleet.fleet import Fleet, fleet_of
from hetrl_api.fleet.topology import HetRLTopology
from hetrl_api.job.job import HetRLJob
from hetrl_api.job.to_core import to_spec
from hetrl_api.pipeline import RatePipeline
from hetrl_api.plan.plan import HetRLPlan
from hetrl_api.plan.to_core import to_plan
from hetrl_api.validation.documents import documents
from hetrl_api.validation.errors import InvalidObjectError, in_words
from hetrl_api.validation.rules import STORED, ApiModel, parts
from hetrl_core.job.spec import JobSpec, ResourcesSpec
from hetrl_core.plan.plan import Plan

Kind = TypeVar("Kind", HetRLJob, HetRLPlan, HetRLTopology, RatePipeline)


def parse(
    kind: type[Kind], fields: Mapping[str, Any], *, by_name: bool = False, is_stored: bool = False
) -> Kind:
    """Read one object of a kind, as YAML or the API server gives it.

    Args:
        kind: the model of the kind.
        fields: the object.
        by_name: whether fields may also have their Python names. The API server does not know
            these, so its kinds do not.
        is_stored: whether the API server has accepted it, perhaps by an earlier release's rules.

    Raises:
        InvalidObjectError: with one line for each mistake.
    """
    try:
        text = json.dumps(fields)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidObjectError([f"a value that JSON cannot hold: {error}"]) from error
    try:
        return kind.model_validate_json(
            text, by_alias=True, by_name=by_name, context={STORED: is_stored}
        )
    except ValidationError as error:
        raise InvalidObjectError(in_words(error, known_fields=_field_names(kind))) from error


def read_job(text: str) -> HetRLJob:
    """Read the one HetRLJob of a YAML text; other objects beside it are left alone.

    Raises:
        InvalidObjectError: there is no HetRLJob, there are several, or it is not valid.
    """
    found = documents(text)
    jobs = [each for each in found if each.get("kind") == "HetRLJob"]
    if len(jobs) != 1:
        kinds = ", ".join(str(each.get("kind", "no kind")) for each in found) or "nothing"
        raise InvalidObjectError([f"expected one HetRLJob, got {len(jobs)} (found: {kinds})"])
    return parse(HetRLJob, jobs[0])


def read_plan(text: str) -> Plan:
    """Read the one HetRLPlan of a YAML text, as `hetrl plan -o yaml` prints it.

    Raises:
        InvalidObjectError: there is none, there are several, or it is not valid.
        ValueError: its machines and replicas do not match.
    """
    found = [each for each in documents(text) if each.get("kind") == "HetRLPlan"]
    if len(found) != 1:
        raise InvalidObjectError([f"expected one HetRLPlan, got {len(found)}"])
    return to_plan(parse(HetRLPlan, found[0]).spec)


def load_pipeline(text: str) -> RatePipeline:
    """Read a pipeline from YAML or JSON.

    Raises:
        InvalidObjectError: with one line for each mistake.
    """
    found = documents(text)
    if len(found) != 1:
        raise InvalidObjectError([f"expected one pipeline, got {len(found)} documents"])
    return parse(RatePipeline, found[0], by_name=True)


def load_job(
    text: str,
    *,
    base_path: Path,
    claims: Mapping[str, Path] | None = None,
    now: datetime | None = None,
) -> JobSpec:
    """Read a job file into what planning and running need.

    Args:
        text: YAML with one HetRLJob.
        base_path: folder that relative paths of the job are in.
        claims: folders that stand for PersistentVolumeClaims by name; None: the paths at
            which pods mount them.
        now: the moment from which a deadline counts; None: the present.

    Raises:
        InvalidObjectError: with one line for each mistake.
    """
    return to_spec(read_job(text), base_path=base_path, claims=claims, now=now or datetime.now(UTC))


def read_fleet(text: str) -> Fleet:
    """Read a fleet file: HetRLTopology objects, Nodes (``kubectl get nodes -o yaml``), or both.

    What is left out of the fleet is in it too, with the reasons.

    Raises:
        InvalidObjectError: with one line for each mistake, or the reasons why nothing is left.
    """
    topologies, nodes, others = [], [], []
    for each in documents(text):
        kind = each.get("kind")
        if kind == "HetRLTopology":
            topologies.append(parse(HetRLTopology, each))
        elif kind == "Node":
            nodes.append(each)
        else:
            others.append(f"a fleet is made of HetRLTopology and Node objects, got {kind}")
    if others:
        raise InvalidObjectError(others)
    fleet = fleet_of(nodes, topologies=topologies)
    if not fleet.places and not any(each.kind and each.kind.obstacle for each in fleet.absences):
        raise InvalidObjectError(
            fleet.left_out(ResourcesSpec()) or ["no machine with GPUs: give spec.pools or Nodes"]
        )
    try:
        fleet.snapshot(ResourcesSpec())
    except ValueError as error:
        raise InvalidObjectError([str(error)]) from error
    return fleet


def _field_names(kind: type[ApiModel]) -> Iterable[str]:
    fields = (pair for part in parts(kind) for pair in part.model_fields.items())
    return {field.alias or name for name, field in fields}
