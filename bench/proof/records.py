"""A proof's records: JSON beside its page, each there whole or not at all."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def keep(path: Path, found: Mapping[str, Any]) -> None:
    """Write a record, in the place of an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(found) + "\n")
    draft.replace(path)
