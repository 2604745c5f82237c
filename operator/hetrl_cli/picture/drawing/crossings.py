"""Flows between regions: drawn below them, one line a flow, grouped by link.

Lines nest like brackets, so that the two ends of one never cross its own link's others.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hetrl_cli.picture.content.movement import RegionFlow
from hetrl_cli.picture.drawing.lettering import SMALL, text_width
from hetrl_cli.picture.drawing.shapes import Arrow, Box, Drawing, Label, Tone, together

FIRST, TRACK = 30.0, 26.0
PORT, NARROWEST_PORT = 14.0, 6.0
GROUP_GAP = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A link that carries something, and what it carries."""

    left: str
    right: str
    link: str
    flows: tuple[RegionFlow, ...]


def crossings(
    flows: Sequence[RegionFlow], order: Sequence[str], links: Mapping[frozenset[str], str]
) -> tuple[Crossing, ...]:
    """Group flows by link, between neighbours first."""
    by_pair: dict[tuple[str, str], list[RegionFlow]] = defaultdict(list)
    for flow in flows:
        if flow.source != flow.target:
            left, right = sorted((flow.source, flow.target), key=order.index)
            by_pair[left, right].append(flow)

    def nearness(pair: tuple[str, str]) -> tuple[int, int]:
        first, last = order.index(pair[0]), order.index(pair[1])
        return last - first, first

    return tuple(
        Crossing(
            left=left,
            right=right,
            link=links[frozenset({left, right})],
            flows=tuple(by_pair[left, right]),
        )
        for left, right in sorted(by_pair, key=nearness)
    )


def draw_crossings(found: Sequence[Crossing], boxes: Mapping[str, Box]) -> Drawing:
    """Draw crossings below the regions' boxes, in their coordinates."""
    bottom = max(box.bottom for box in boxes.values())
    if not found:
        return Drawing(width=0, height=bottom)
    y = bottom + FIRST
    parts = []
    left_ports = _Ports(found, boxes, on_the_left=True)
    right_ports = _Ports(found, boxes, on_the_left=False)
    for each in found:
        rows: list[RegionFlow | None] = [None, *each.flows]
        for flow in rows:
            x, other_x = right_ports.next(each.left), left_ports.next(each.right)
            bottoms = boxes[each.left].bottom, boxes[each.right].bottom
            parts.append(_line(each, flow, ends=(x, other_x), bottoms=bottoms, y=y))
            y += TRACK
        y += GROUP_GAP
    return together(parts, width=0, height=y)


class _Ports:
    """Where lines leave a region's lower edge, in the half that faces the other end.

    Those of the first lines are so far apart that the words on a line fit between them.
    """

    def __init__(
        self, found: Sequence[Crossing], boxes: Mapping[str, Box], *, on_the_left: bool
    ) -> None:
        self._used: Counter[str] = Counter()
        self._boxes = boxes
        self._on_the_left = on_the_left
        self._first = max(text_width(text, SMALL, is_bold=True) for text in _texts(found)) / 2
        self._counts: Counter[str] = Counter()
        for each in found:
            self._counts[each.right if on_the_left else each.left] += len(each.flows) + 1

    def next(self, region: str) -> float:
        """Return the next port's x."""
        box = self._boxes[region]
        count, number = self._counts[region], self._used[region]
        self._used[region] += 1
        half = box.width / 2 - 8
        first = max(PORT, min(self._first, half - count * NARROWEST_PORT))
        inwards = first + number * min(PORT, (half - first) / count)
        return box.x + inwards if self._on_the_left else box.right - inwards


def _texts(found: Sequence[Crossing]) -> Iterator[str]:
    for each in found:
        yield f"{each.left} to {each.right}: {each.link}"
        yield from (f"{flow.kind}: {flow.amount}" for flow in each.flows)


def _line(
    crossing: Crossing,
    flow: RegionFlow | None,
    *,
    ends: tuple[float, float],
    bottoms: tuple[float, float],
    y: float,
) -> Drawing:
    x, other_x = ends
    points = ((x, bottoms[0]), (x, y), (other_x, y), (other_x, bottoms[1]))
    if flow is None:
        text = f"{crossing.left} to {crossing.right}: {crossing.link}"
    else:
        text = f"{flow.kind}: {flow.amount}"
    goes_right = flow is None or flow.source == crossing.left
    arrow = Arrow(
        points=points if goes_right else points[::-1],
        ink=(flow.task or flow.kind) if flow else None,
        has_two_heads=flow is not None and flow.is_mutual,
    )
    label = Label(
        at=((x + other_x) / 2, y),
        text=text,
        size=SMALL,
        anchor="center",
        ink=flow.kind if flow else Tone.INK,
        has_paper=True,
        is_bold=flow is None,
    )
    return Drawing(width=0, height=0, arrows=(arrow,), labels=(label,))
