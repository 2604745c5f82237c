"""Words that this project does not use, with the standard terms that replace them.

Run it as ``python -m tests.repo.vocabulary [FOLDER ...]`` to list the uses that are left.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("core", "operator", "runtime")

NAMES = {
    r"wish(es)?": "parsed spec",
    r"ballast": "trim fields",
    r"toggles?": "initial sync",
    r"census|ghosts?": "missed deletes",
    r"farewell": "graceful shutdown",
    r"resign(s|ed)?": "release (a lease)",
    r"laid_over": "pending writes",
    r"performer|carry_out|carried_out": "executor, apply",
    r"told|tells?_workload": "status write, update",
    r"look_at|looked_at|looks_at": "enqueue",
    r"in_force": "active plan",
    r"standing": "active plan, current plan",
    r"on_paper": "dry run",
    r"put_away": "archive",
    r"let_job_go|hold_job|let_go|lifts?|lift_gate": "remove or add a finalizer, scheduling gates",
    r"strays?|strayed": "orphaned",
    r"weigh|stakes": "evaluate a replan, replan cost",
    r"planner_trouble": "PlannerError",
    r"occupied": "InsufficientFreeGpus",
    r"decided|go_on|in_short": "SearchResult, refine, quick plan",
    r"anew": "again, new",
    r"lend(s|ing)?|lent|loan(s|ed)?": "lease",
    r"publicity|roster|intake": "reporting, members, ingest",
    r"sift|patience": "dynamic sampling, failure budget",
    r"said_br|silent_br|strayed_br": "values_BR, zeros_BR, kl_BR",
    r"is_given": "manual plan",
}
"""Parts of identifiers, as regular expressions over their words in snake case."""

PROSE = {
    r"wish(es)?": "parsed spec",
    r"ballast|census|ghosts?|farewell": "the standard term",
    r"gone unseen": "missed delete",
    r"told": "reported, written",
    r"anew": "again",
    r"look(s|ed)? at": "reconcile, read, check",
    r"whoever|nobody": "name who it is",
    r"in force": "active",
    r"on paper": "dry run, unreserved",
    r"put away": "archive",
    r"lent|lend(s|ing)?|loan(s|ed)?": "lease",
    r"strays?": "orphaned",
    r"stranger('s|s)?": "untrusted, of others",
}
"""Phrases in docstrings, comments and messages."""

_ANY_NAME = re.compile("|".join(NAMES))
_ANY_PHRASE = re.compile("|".join(PROSE), re.IGNORECASE)
"""Any of the words, wherever it stands: most names and lines have none."""

_TEXT = {
    tokenize.STRING,
    tokenize.COMMENT,
    # Since Python 3.12, the text of an f-string is a token of its own.
    getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),
}

OPENINGS = ("What", "How", "Who", "Whether", "Where", "Whose")
"""First words that a module's docstring does not have: it begins with a noun phrase."""


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """One use of a word."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}: {self.instead}"


def uses(folder: Path) -> Iterator[Use]:
    """Yield every use of a banned word in the Python files of a folder."""
    for path in sorted(folder.rglob("*.py")):
        if "_pb2" in path.name:
            continue
        source = path.read_text()
        tree = ast.parse(source)
        yield from _in_names(path, tree)
        yield from _in_prose(path, source)
        yield from _openings(path, tree)


def uses_on_page(path: Path) -> Iterator[Use]:
    """Yield every use of a banned phrase in a file of text, such as a page or a chart's values."""
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        yield from _in_text(path, number, line)


def _in_names(path: Path, tree: ast.Module) -> Iterator[Use]:
    for line, name in {*_names(tree), (1, path.stem)}:
        words = _snake(name)
        if not _ANY_NAME.search(words):
            continue
        for pattern, instead in NAMES.items():
            if re.search(rf"(^|_)({pattern})(_|$)", words):
                yield Use(_relative(path), line, name, instead)


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).strip("_").lower()


def _in_prose(path: Path, source: str) -> Iterator[Use]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _TEXT:
            continue
        yield from _in_text(path, token.start[0], " ".join(token.string.split()))


def _in_text(path: Path, line: int, text: str) -> Iterator[Use]:
    if not _ANY_PHRASE.search(text):
        return
    for pattern, instead in PROSE.items():
        for found in re.finditer(rf"(?<![\w-])({pattern})(?![\w-])", text, re.IGNORECASE):
            yield Use(_relative(path), line, found[0], instead)


def _openings(path: Path, tree: ast.Module) -> Iterator[Use]:
    first = (ast.get_docstring(tree) or "").partition(" ")[0]
    if first in OPENINGS:
        yield Use(_relative(path), 1, first, "begin with a noun phrase")


def _relative(path: Path) -> str:
    path = path.resolve()
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


if __name__ == "__main__":
    folders = [Path(each) for each in sys.argv[1:]] or [ROOT / each for each in SOURCES]
    found = sorted(use for folder in folders for use in uses(folder))
    print(*found, f"{len(found)} uses", sep="\n")
