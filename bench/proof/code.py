"""Which code a proof's record is of, so that only what other code made is made again."""

import ast
import hashlib
from collections.abc import Iterable
from pathlib import Path


def digest(patterns: Iterable[str], *, beside: str = "") -> str:
    """Return a digest of Python files but for their comments, and of what decides beside them."""
    found = hashlib.sha256(beside.encode())
    for path in sorted(path for pattern in patterns for path in Path().glob(pattern)):
        found.update(f"{path}\n{ast.dump(ast.parse(path.read_text()))}\n".encode())
    return found.hexdigest()[:16]
