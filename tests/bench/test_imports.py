"""Benches run seldom: what they take from elsewhere must still be there when they do."""

import ast
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {
    "bench",
    "e2e",
    "tests",
    "hetrl_core",
    "hetrl_api",
    "hetrl_planner",
    "hetrl_operator",
    "hetrl_cli",
    "hetrl_runtime",
}


def taken() -> Iterator[tuple[str, str]]:
    """Every name that a bench imports from a module of ours."""
    for path in sorted((ROOT / "bench").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            module = (isinstance(node, ast.ImportFrom) and node.module) or ""
            if isinstance(node, ast.ImportFrom) and module.partition(".")[0] in OURS:
                yield from ((module, alias.name) for alias in node.names)


@pytest.mark.slow
def test_bench_imports_exist() -> None:
    missing = [
        f"{module}.{name}"
        for module, name in dict.fromkeys(taken())
        if not hasattr(import_module(module), name) and not find_spec(f"{module}.{name}")
    ]
    assert missing == []
