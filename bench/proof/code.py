"""Which code a proof's record is of, so that only what other code made is made again."""

import ast
import hashlib
from collections.abc import Iterable
from pathlib import Path

_NOT_ASKED = frozenset(
    Path(f"runtime/hetrl_runtime/reward/{name}.py") for name in ("answers/magnitude", "mathematics")
)
"""The verifier ``math``: all jobs that records are of have the reward ``exact``."""


def digest(patterns: Iterable[str], *, beside: str = "") -> str:
    """Return a digest of Python files but for their comments, and of what decides beside them."""
    found = hashlib.sha256(beside.encode())
    paths = {path for pattern in patterns for path in Path().glob(pattern)} - _NOT_ASKED
    for path in sorted(paths):
        found.update(f"{path}\n{ast.dump(ast.parse(path.read_text()))}\n".encode())
    return found.hexdigest()[:16]
