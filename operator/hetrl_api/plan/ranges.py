"""Many machine names in few characters: ``a100-[000-119]``, ``gke-pool-[7f2k,m0x9]``.

Order and repetition survive, so that ranks keep their places: a run says how often each
name comes in a row. What the machines are for is left to the plan.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

ITEMS_PER_PATTERN = 32
"""Most entries in one pair of brackets: keeps a pattern within ``MAX_CHARACTERS``."""

MAX_CHARACTERS = 4096
"""Longest pattern that the API accepts; names of nodes have at most 253."""

MAX_MACHINES = 100_000
"""Most names that one pattern may stand for; more is a slip in a range."""

_PATTERN = re.compile(r"^(?P<head>[^\[\],]*)\[(?P<items>[^\[\]]+)\](?P<tail>[^\[\],]*)$")
_RANGE = re.compile(r"^(?P<first>\d+)-(?P<last>\d+)$")
_LABEL = re.compile(r"^(?P<head>(?:.*-)?(?:[a-zA-Z]+(?=\d+$))?)(?P<item>[^-]*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Consecutive machine names, each coming ``times`` times in a row."""

    pattern: str
    times: int = 1

    @property
    def num_names(self) -> int:
        """How many names it stands for, without making them: a slip may stand for billions."""
        match = _PATTERN.match(self.pattern)
        parts = match["items"].split(",") if match else [""]
        return self.times * sum(_size(part) for part in parts)

    def names(self) -> tuple[str, ...]:
        """Return the names in order; ``ValueError`` when the pattern is malformed."""
        return tuple(name for name in expand(self.pattern) for _ in range(self.times))


def compress(names: Iterable[str]) -> tuple[Run, ...]:
    """Return the runs whose names, one after another, are exactly ``names``."""
    repeated = [(name, len(tuple(same))) for name, same in groupby(names)]
    return tuple(
        Run(pattern=pattern, times=times)
        for times, alike in groupby(repeated, key=lambda pair: pair[1])
        for pattern in _patterns([name for name, _ in alike])
    )


def expand(pattern: str) -> tuple[str, ...]:
    """Return the names of a pattern in order.

    Raises:
        ValueError: brackets do not match, or a range runs backwards or too far.
    """
    match = _PATTERN.match(pattern)
    if match is None:
        if re.search(r"[\[\],]", pattern) or not pattern:
            raise ValueError(f"malformed machine range {pattern!r}")
        return (pattern,)
    items = [item for part in match["items"].split(",") for item in _expanded(part)]
    return tuple(f"{match['head']}{item}{match['tail']}" for item in items)


def _patterns(names: Sequence[str]) -> Iterator[str]:
    for (head, tail), alike in groupby(
        (_split(name) for name in names), key=lambda part: part[::2]
    ):
        stretches = _stretches([item for _, item, _ in alike])
        for start in range(0, len(stretches), ITEMS_PER_PATTERN):
            some = stretches[start : start + ITEMS_PER_PATTERN]
            is_one_name = len(some) == 1 and not _RANGE.match(some[0])
            yield f"{head}{some[0]}{tail}" if is_one_name else f"{head}[{','.join(some)}]{tail}"


def _split(name: str) -> tuple[str, str, str]:
    """Split a name before and after what differs between neighbours, as clouds name nodes."""
    label, dot, domain = name.partition(".")
    match = _LABEL.match(label)
    if match is None or not match["item"]:
        return name, "", ""
    return match["head"], match["item"], f"{dot}{domain}"


def _stretches(items: Sequence[str]) -> list[str]:
    """Write numbers that count up by one as ``first-last``; leave the rest as they are."""
    stretches: list[str] = []
    start = 0
    for end in range(1, len(items) + 1):
        if end < len(items) and _follows(items[end - 1], items[end]):
            continue
        alone = start == end - 1
        stretches.append(items[start] if alone else f"{items[start]}-{items[end - 1]}")
        start = end
    return stretches


def _follows(number: str, after: str) -> bool:
    if not (number.isdecimal() and after.isdecimal() and len(number) == len(after)):
        return False
    return int(after) == int(number) + 1


def _size(part: str) -> int:
    match = _RANGE.match(part)
    return max(1, int(match["last"]) - int(match["first"]) + 1) if match else 1


def _expanded(part: str) -> Sequence[str]:
    match = _RANGE.match(part)
    if match is None:
        return [part]
    first, last = int(match["first"]), int(match["last"])
    if not first < last < first + MAX_MACHINES:
        raise ValueError(
            f"machine range {part!r} must count up, over at most {MAX_MACHINES} machines"
        )
    width = len(match["first"])
    return [f"{number:0{width}}" for number in range(first, last + 1)]
