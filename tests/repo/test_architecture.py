"""The structure of the shipped code, and the map of it in ARCHITECTURE.md."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "ARCHITECTURE.md").read_text()
SOURCES = [ROOT / each for each in ("core", "operator", "runtime")]
PACKAGES = sorted(path for source in SOURCES for path in source.iterdir() if path.is_dir())
FOLDERS = sorted(
    path
    for package in PACKAGES
    for path in (package, *package.rglob("*"))
    if path.is_dir() and (path / "__init__.py").exists()
)

MOST_MODULES = 14
MOST_MODULES_OF_A_ROOT = 8
MOST_LINES_OF_THE_MAP = 200


def modules_of(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_folder_has_few_modules(folder: Path) -> None:
    most = MOST_MODULES_OF_A_ROOT if folder in PACKAGES else MOST_MODULES
    assert len(modules_of(folder)) <= most


def test_map_is_short() -> None:
    assert len(MAP.splitlines()) <= MOST_LINES_OF_THE_MAP


def test_paths_on_the_map_exist() -> None:
    paths = re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)`", MAP)
    roots = [ROOT, *SOURCES, *PACKAGES]
    missing = [path for path in paths if not any((root / path).exists() for root in roots)]
    assert paths
    assert not missing


def test_layers_on_the_map_are_those_of_the_contracts() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = {
        each["containers"][0]: [layer.split(" | ") for layer in each["layers"]]
        for each in contracts["contracts"]
        if each["type"] == "layers" and "containers" in each
    }
    for package, column in columns_of_layers().items():
        assert column == layers[package]


def columns_of_layers() -> dict[str, list[list[str]]]:
    """The columns of the table of layers: each cell's packages, from the top."""
    table = MAP.partition("## Layers")[2].partition("\n\n|")[2].partition("\n\n")[0]
    heads, _, *rows = [row.strip(" |").split(" | ") for row in table.splitlines()]
    return {
        head: [re.findall(r"`(\w+)`", cell) for cell in column]
        for head, column in zip(heads, zip(*rows, strict=True), strict=True)
    }


@pytest.mark.parametrize(
    ("section", "source"),
    [
        ("Reconciling one job", "operator/hetrl_operator/reconcile/reconciler.py"),
        ("Planning one job", "operator/hetrl_planner/plan_job.py"),
    ],
)
def test_steps_on_the_map_are_those_of_the_code(section: str, source: str) -> None:
    text = MAP.partition(f"## {section}")[2].partition("\n## ")[0]
    on_the_map = re.findall(r"^\d\. \*\*([\w ]+)\*\*", text, re.MULTILINE)
    in_the_code = re.findall(r"^ +# \d\. ([\w ]+)", (ROOT / source).read_text(), re.MULTILINE)
    assert on_the_map == in_the_code


def test_code_is_never_kept_from_the_formatter() -> None:
    kept = re.compile(r"# fmt: ?(skip|off)")
    files = [path for source in SOURCES for path in source.rglob("*.py")]
    assert not [path for path in files if kept.search(path.read_text())]


ANSWERS = {"Plan", "Alternatives", "Infeasible", "InsufficientFreeGpus", "PlannerError"}
"""The results of the planner, by the names of their classes."""


def test_planner_results_are_matched_in_one_place() -> None:
    places = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "operator/hetrl_operator").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Match) and any(matches_answer(each.pattern) for each in node.cases)
    ]
    assert places == ["operator/hetrl_operator/decide/plan/next_step.py"]


def matches_answer(pattern: ast.pattern | None) -> bool:
    """Tell whether a whole pattern, or one of its alternatives, is a result of the planner."""
    match pattern:
        case ast.MatchOr(patterns=patterns):
            return any(map(matches_answer, patterns))
        case ast.MatchAs(pattern=inner):
            return matches_answer(inner)
        case ast.MatchClass(cls=ast.Name(id=name)):
            return name in ANSWERS
        case _:
            return False


def test_strategies_are_matched_in_one_place() -> None:
    # Elsewhere a strategy is an object: a second table of them would miss the next one.
    places = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "operator").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if any(map(is_strategy, compared_by(node)))
    }
    assert places == {"operator/hetrl_planner/strategies/registry.py"}


def compared_by(node: ast.AST) -> list[ast.expr | None]:
    """The values that a value is compared with: in patterns, comparisons and keys of tables."""
    match node:
        case ast.MatchValue(value=value):
            return [value]
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.Dict(keys=keys):
            return list(keys)
        case _:
            return []


def is_strategy(value: ast.expr | None) -> bool:
    return (
        isinstance(value, ast.Attribute)
        and isinstance(value.value, ast.Name)
        and value.value.id == "Strategy"
    )
