"""The quick tests that can notice a change of a file, those that are most likely to first."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

QUICK = "not cluster and not pods and not engine and not slow"
"""The marker expression of ``make check``."""

_SOURCE_ROOTS = ("core", "operator", "runtime")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Files that are mutated, and the tests that run for them."""

    code: str
    """A file, or a folder with all that it contains."""

    tests: tuple[str, ...]
    """Folders and files, from the root of the checkout."""

    def files(self) -> Iterator[Path]:
        """Yield the files, from the root of the checkout."""
        path = Path(self.code)
        yield from [path] if path.is_file() else path.rglob("*.py")

    def test_files(self, root: Path = Path()) -> Iterator[Path]:
        """Yield the files of the tests in a checkout."""
        for each in map(root.joinpath, self.tests):
            yield from [each] if each.is_file() else each.rglob("test_*.py")


SUBJECTS = (
    Subject(
        code="core/hetrl_core/staleness.py",
        tests=("tests/core/test_staleness.py", "tests/simulator", "tests/runtime/coordinator"),
    ),
    Subject(
        code="runtime/hetrl_runtime/coordinator/rules",
        tests=("tests/runtime/coordinator",),
    ),
    Subject(
        code="runtime/hetrl_runtime/trainer/losses",
        tests=("tests/runtime/trainer",),
    ),
    Subject(code="operator/hetrl_operator/decide", tests=("tests/controller",)),
    Subject(
        code="operator/hetrl_operator/planning/reservations.py",
        tests=("tests/controller",),
    ),
    Subject(code="operator/hetrl_planner/cost", tests=("tests/planner", "tests/simulator")),
    Subject(code="operator/hetrl_planner/layout/objective.py", tests=("tests/planner",)),
)


def subject_of(path: str) -> Subject:
    """Return the subject that a mutated file belongs to.

    Raises:
        LookupError: the file belongs to none.
    """
    for subject in SUBJECTS:
        if path == subject.code or path.startswith(f"{subject.code}/"):
            return subject
    raise LookupError(f"no tests are named for {path}")


def stages(path: str, root: Path = Path()) -> tuple[Sequence[Path], ...]:
    """Return the test files of a checkout for a mutated file, in stages.

    First those that name the file or import it, then those that import its package, themselves or
    through other modules of tests, then the others. A stage runs only for mutants that the ones
    before did not notice.
    """
    tests = sorted(set(subject_of(path).test_files(root)))
    distances = {test: _distance(test, path, root) for test in tests}
    return tuple(
        sorted(stage, key=lambda test: (Path(path).stem not in test.stem, test))
        for distance in sorted(set(distances.values()))
        if (stage := [test for test in tests if distances[test] == distance])
    )


def _distance(test: Path, path: str, root: Path) -> int:
    module = _module(path)
    if Path(path).stem in test.stem or module in _imports(test):
        return 0
    top = module.partition(".")[0]
    package = module.rpartition(".")[0]
    is_near = any(
        each.startswith(f"{package}.") or (each != top and module.startswith(f"{each}."))
        for each in _all_imports(test, root)
    )
    return 1 if is_near else 2


def _module(path: str) -> str:
    inside = Path(path).relative_to(Path(path).parts[0]).with_suffix("")
    return ".".join(inside.parts)


@cache
def _all_imports(test: Path, root: Path) -> frozenset[str]:
    """Return what a test imports, itself and through other modules of tests."""
    found, open_files = set[str](), [test]
    seen = {test}
    while open_files:
        imported = _imports(open_files.pop())
        found |= imported
        helpers = {
            root.joinpath(*each.split(".")).with_suffix(".py")
            for each in imported
            if each.startswith("tests.")
        }
        new = [each for each in helpers - seen if each.is_file()]
        seen |= {*new}
        open_files += new
    return frozenset(found)


@cache
def _imports(test: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(test.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return frozenset(found)


def source_path(root: Path) -> str:
    """Return the PYTHONPATH of a checkout."""
    return ":".join(str(root / each) for each in _SOURCE_ROOTS)
