"""No field of a job is ignored: each is read by someone, or refused by a rule."""

import ast
from functools import cache
from pathlib import Path

import pytest

from hetrl_api.job.job import HetRLJobSpec
from hetrl_api.job.lifecycle import Gang
from hetrl_api.job.model import SecretRef
from hetrl_api.job.runtime import Toleration
from hetrl_api.validation.rules import parts

OPERATOR = Path(__file__).parents[2] / "operator"
READERS = [OPERATOR / "hetrl_api/job/to_core.py", *OPERATOR.glob("hetrl_operator/**/*.py")]

WHOLE = {
    Toleration: "goes into the pod as it is",
    SecretRef: "spec.model.secretRef is refused",
    Gang: "spec.scheduling.gang is refused",
}
"""Parts whose fields are not read one by one, and why."""

ONE_CHOICE = {"transport", "throughput"}
"""Fields that need no reader: every value but the one that we act on is refused."""


@cache
def attributes_read() -> frozenset[str]:
    nodes = (node for file in READERS for node in ast.walk(ast.parse(file.read_text())))
    return frozenset(
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    ) | {"trainer", "rollout", "coordinator", "inference"}  # read by role, with getattr


def refused() -> set[str]:
    return {
        rule.field.rpartition(".")[2]
        for part in parts(HetRLJobSpec)
        for rule in part.rules
        if "not supported yet" in rule.message
    }


FIELDS = [
    pytest.param(name, field.alias or name, id=f"{part.__name__}.{name}")
    for part in parts(HetRLJobSpec)
    if part not in WHOLE
    for name, field in part.model_fields.items()
]


@pytest.mark.parametrize(("name", "alias"), FIELDS)
def test_a_field_is_read_or_refused(name: str, alias: str) -> None:
    assert name in attributes_read() | ONE_CHOICE or alias in refused()


def test_a_field_that_nobody_reads_would_be_noticed() -> None:
    assert "nobody_reads_this" not in attributes_read()
    assert refused() >= {"uri", "queue", "gang"}
