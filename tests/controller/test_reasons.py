"""The status contract is complete: each word of it has a meaning, and a test that reaches it."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from hetrl_api.job.job import HetRLJobSpec
from hetrl_api.job.lifecycle import FailurePolicy
from hetrl_operator.model import reasons
from tests.controller.reasons import CONDITIONS, DEADLINES, EVENTS, REASONS

HERE = Path(__file__).parent
SOURCE = Path(reasons.__file__)
TABLES: Mapping[str, Mapping[str, str]] = {
    "ConditionType": CONDITIONS,
    "Reason": REASONS,
    "EventReason": EVENTS,
}


@cache
def sources_on_an_api_server() -> dict[str, str]:
    """The source of each such test, its parameters included, by name."""
    found = {}
    for file in HERE.glob("test_*on_api_server.py"):
        text = file.read_text()
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                found[node.name] = "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    return found


def constants(name: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and meaning of each constant of a class of ``reasons``."""
    tree = ast.parse(SOURCE.read_text())
    (found,) = [each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name]
    for here, following in zip(found.body, [*found.body[1:], None], strict=True):
        if isinstance(here, ast.AnnAssign) and isinstance(here.target, ast.Name):
            said = following.value if isinstance(following, ast.Expr) else None
            meaning = str(said.value) if isinstance(said, ast.Constant) else ""
            assert isinstance(here.value, ast.Constant)
            yield here.target.id, str(here.value.value), meaning


WORDS = [
    pytest.param(kind, *each, id=f"{kind}.{each[0]}") for kind in TABLES for each in constants(kind)
]


@pytest.mark.parametrize(("kind", "name", "value", "meaning"), WORDS)
def test_status_words_each_have_a_meaning_and_a_test(
    kind: str, name: str, value: str, meaning: str
) -> None:
    assert meaning, f"reasons.{kind}.{name} says nothing of itself"
    assert value in TABLES[kind], f"no test reaches {kind}.{name}: enter one in reasons.py"
    test = TABLES[kind][value]
    source = sources_on_an_api_server().get(test)
    assert source, f"{test} is no test on an API server"
    said = rf"\b(?:{kind}\.{name}\b|{value}\b)"
    assert re.search(said, source), f"{test} does not ask for {kind}.{name}"


@pytest.mark.parametrize("kind", TABLES)
def test_table_names_nothing_that_is_gone(kind: str) -> None:
    assert TABLES[kind].keys() == {value for _, value, _ in constants(kind)}


@pytest.mark.parametrize(("field", "test"), DEADLINES.items())
def test_deadlines_are_each_reached(field: str, test: str) -> None:
    assert field in sources_on_an_api_server()[test]


def test_deadlines_are_all_listed() -> None:
    times = {
        field.alias or name
        for model in (HetRLJobSpec, FailurePolicy)
        for name, field in model.model_fields.items()
        if "econds" in name
    }
    assert times == DEADLINES.keys()
