"""Sources of rows: which of a job's rewards are for the responses to a row."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from hetrl_core.job.reward import RewardPart
from hetrl_core.job.spec import DataSpec
from hetrl_runtime.data.record import Missing, value_at


def parts_for(data: DataSpec, columns: Mapping[str, Any]) -> Sequence[RewardPart]:
    """Return the rewards that are for a row with these columns."""
    source = source_of(data, columns)
    return [each for each in data.parts if each.is_for(source)]


def source_of(data: DataSpec, columns: Mapping[str, Any]) -> str:
    """Return the source of a row as text; empty where it has none."""
    found = value_at(columns, data.source_field)
    return "" if isinstance(found, Missing) or found is None else str(found)


def unknown_source(data: DataSpec, source: str) -> str:
    """Say that no reward is for rows of a source, with the closest name that there is."""
    if not source:
        return f"it has no {data.source_field!r}, and every one of data.rewards names sources"
    known = sorted({name for each in data.parts for name in each.sources})
    near = get_close_matches(source, known, n=1)
    hint = f": is {near[0]!r} meant?" if near else ""
    return (
        f"none of data.rewards is for {data.source_field} {source!r:.60} "
        f"(they are for {', '.join(known)}){hint}"
    )
