"""One changed operator in one line of the code."""

import ast
import hashlib
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A change of one operator, and where it is."""

    path: str
    """Of the file, from the root of the checkout."""

    line_number: int
    operator: str
    """cosmic-ray's name of the change, such as ``ReplaceBinaryOperator_Mul_Div``."""

    line: str
    """Source text of the line, without indentation."""

    occurrence: int
    """Position among the same changes of the same text in this file."""

    mutated_line: str

    @property
    def key(self) -> str:
        """An identity that stays when other lines of the file change."""
        return key(self.path, self.operator, self.line, self.occurrence)

    def __str__(self) -> str:
        return f"{self.path}:{self.line_number}: {self.line} -> {self.mutated_line}"

    def fields(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMutant:
    """A mutant with the whole source of its file."""

    mutant: Mutant
    source: str


def key(path: str, operator: str, line: str, occurrence: int) -> str:
    """Return the identity of a mutant."""
    parts = (path, operator, line, str(occurrence))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def rank(identity: str, seed: int) -> str:
    """Return the position of a mutant in the random order of a seed.

    It depends on nothing else, so that a sample stays the same where the code does.
    """
    return hashlib.sha256(f"{seed} {identity}".encode()).hexdigest()


def changes_operator(before: str, after: str) -> bool:
    """Tell whether two sources differ in an operator and both are Python.

    A ``*`` in a list of parameters looks like a product to a tool that replaces tokens.
    """
    try:
        return _operators(before) != _operators(after)
    except SyntaxError:
        return False


def _operators(source: str) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            found += [type(each).__name__ for each in node.ops]
        elif isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp | ast.AugAssign):
            found.append(type(node.op).__name__)
    return found
