"""Fields of a job: each reaches the core's JobSpec, is read by the operator, or is refused."""

import ast
import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from hetrl_api.job.job import HetRLJob, HetRLJobSpec
from hetrl_api.job.lifecycle import FailurePolicy, FailureRule, Gang, Scheduling
from hetrl_api.job.model import SecretRef
from hetrl_api.job.planning import Replan
from hetrl_api.job.runtime import (
    ClaimVolume,
    Compute,
    ConfigMapVolume,
    EmptyDirVolume,
    EnvironmentSource,
    EnvironmentVariable,
    Images,
    PodTemplate,
    RoleCompute,
    SecretKey,
    Toleration,
    Volume,
    VolumeMount,
)
from hetrl_api.job.to_core import to_spec
from hetrl_api.load import parse
from hetrl_api.validation.rules import parts
from hetrl_core.job.spec import JobSpec
from tests.api.objects import VALID_JOBS
from tests.api.variants import is_leaf, variants

OPERATOR = Path(__file__).parents[2] / "operator/hetrl_operator"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

REFUSED_PARTS = {SecretRef, Gang}
"""Parts that exist only inside a field that a rule refuses."""

OPERATOR_PARTS = {
    ClaimVolume,
    Compute,
    ConfigMapVolume,
    EmptyDirVolume,
    EnvironmentSource,
    EnvironmentVariable,
    FailurePolicy,
    FailureRule,
    Images,
    PodTemplate,
    Replan,
    RoleCompute,
    Scheduling,
    SecretKey,
    Toleration,
    Volume,
    VolumeMount,
}
"""Parts that only the operator reads: the core does not need them."""

OPERATOR_FIELDS = {
    "Checkpoints.persistent_volume_claim",
    "Planning.mode",
    "Planning.plan_ref",
    "Planning.history_limit",
    "HetRLJobSpec.suspend",
    "HetRLJobSpec.startup_deadline_seconds",
    "HetRLJobSpec.unschedulable_deadline_seconds",
    "HetRLJobSpec.progress_deadline_seconds",
    "HetRLJobSpec.active_deadline_seconds",
    "HetRLJobSpec.ttl_seconds_after_finished",
    "HetRLJobSpec.release_deadline_seconds",
    "HetRLJobSpec.managed_by",
}
"""Fields that only the operator reads, in parts that the core needs otherwise."""

REFUSED_FIELDS = {"Checkpoints.uri", "Transport.trajectories"}
"""Fields for which rules refuse every value, or every value but the default."""


FIELDS = {
    f"{part.__name__}.{name}"
    for part in parts(HetRLJobSpec)
    if part not in OPERATOR_PARTS | REFUSED_PARTS
    for name in part.model_fields
    if is_leaf(part, name)
}


def core_spec(job: HetRLJob) -> JobSpec | None:
    """The core's view of a job; None if the core refuses one of its values."""
    try:
        return to_spec(job, base_path=Path("/"), now=NOON)
    except ValueError:
        return None


@cache
def fields_in_core() -> tuple[frozenset[str], frozenset[str]]:
    """The fields that an example sets, and those of them that change the core's view of a job."""
    tried, carried = set(), set()
    for example in VALID_JOBS:
        job = parse(HetRLJob, json.loads(json.dumps(example.values[0])))
        spec = core_spec(job)
        for field, variant in variants(job.spec):
            tried.add(field)
            if core_spec(job.model_copy(update={"spec": variant})) != spec:
                carried.add(field)
    return frozenset(tried), frozenset(carried)


@pytest.mark.parametrize("field", sorted(FIELDS - OPERATOR_FIELDS - REFUSED_FIELDS))
def test_field_reaches_core(field: str) -> None:
    tried, carried = fields_in_core()

    assert field in tried, "no job of tests/api/objects.py sets it"
    assert field in carried


@cache
def attributes_read_by_operator() -> frozenset[str]:
    nodes = (
        node for file in OPERATOR.rglob("*.py") for node in ast.walk(ast.parse(file.read_text()))
    )
    return frozenset(
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    )


WRITTEN_WHOLE = {Toleration, Images, RoleCompute}
"""Parts that are rendered as they are, or read by role."""


@pytest.mark.parametrize(
    "field",
    sorted(
        OPERATOR_FIELDS
        | {
            f"{part.__name__}.{name}"
            for part in OPERATOR_PARTS - WRITTEN_WHOLE
            for name in part.model_fields
        }
        - {"Scheduling.gang", "Scheduling.queue"}
    ),
)
def test_field_of_operator_is_read_by_operator(field: str) -> None:
    assert field.partition(".")[2] in attributes_read_by_operator()


def test_lists_of_fields_are_exact() -> None:
    _, carried = fields_in_core()

    assert FIELDS >= OPERATOR_FIELDS
    assert not OPERATOR_FIELDS & carried
