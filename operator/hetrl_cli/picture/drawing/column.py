"""Machines that do the same part of the work: a heading, and their cards in one stack or two."""

from collections.abc import Sequence
from dataclasses import dataclass

from hetrl_cli.picture.content.movement import FlowKind, Hop
from hetrl_cli.picture.content.sides import NumberedCard
from hetrl_cli.picture.drawing.lettering import HEADING, SMALL, text_width, wrapped
from hetrl_cli.picture.drawing.shapes import Box, Drawing, Label, Panel, PanelKind, Tone, together
from hetrl_cli.picture.drawing.stack import TRACK, Placed, Ports, Side, detour, stack

PADDING = 12.0
LINE = 15.0
HIGHEST = 4
"""Cards of one stack; more of them stand in two, for paper is wider than high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What stands above the machines."""

    title: str
    lines: tuple[tuple[str, FlowKind | Tone], ...]


def column(
    cards: Sequence[NumberedCard], hops: Sequence[Hop], heading: Heading, *, tracks_on: Side
) -> Placed:
    """Draw cards with the hops among them, at the origin."""
    body = _body(cards, hops, tracks_on)
    room = max(body.drawing.width, text_width(heading.title, HEADING, is_bold=True))
    title = _heading(heading, room)
    placed = body.moved(PADDING, PADDING + title.height)
    width = room + 2 * PADDING
    height = title.height + body.drawing.height + 2 * PADDING
    frame = Panel(box=Box(x=0, y=0, width=width, height=height), kind=PanelKind.SIDE)
    background = Drawing(width=width, height=height, panels=(frame,))
    drawing = together(
        [background, title.moved(PADDING, PADDING), placed.drawing], width=width, height=height
    )
    return Placed(drawing=drawing, boxes=placed.boxes)


def _heading(heading: Heading, room: float) -> Drawing:
    labels = [Label(at=(0, 6), text=heading.title, size=HEADING, is_bold=True)]
    for text, ink in heading.lines:
        for line in wrapped(text, SMALL, room=room):
            y = 24 + (len(labels) - 1) * LINE
            labels.append(Label(at=(0, y), text=line, size=SMALL, ink=ink))
    return Drawing(width=0, height=24 + (len(labels) - 1) * LINE, labels=tuple(labels))


def _body(cards: Sequence[NumberedCard], hops: Sequence[Hop], tracks_on: Side) -> Placed:
    if len(cards) <= HIGHEST:
        return stack(cards, hops, tracks_on=tracks_on)
    half = (len(cards) + 1) // 2
    left = stack(cards[:half], hops, tracks_on="left")
    right = stack(cards[half:], hops, tracks_on="right")
    gap = max(1, len(_crossing(hops, left, right))) * TRACK
    right = right.moved(left.drawing.width + gap, 0)
    drawing = together(
        [left.drawing, right.drawing, _across(hops, left, right)],
        width=left.drawing.width + gap + right.drawing.width,
        height=max(left.drawing.height, right.drawing.height),
    )
    return Placed(drawing=drawing, boxes={**left.boxes, **right.boxes})


def _across(hops: Sequence[Hop], left: Placed, right: Placed) -> Drawing:
    """Draw the hops between cards at the left and cards at the right, each on its own track."""
    crossing = _crossing(hops, left, right)
    ports = Ports()
    first_x = min(box.x for box in right.boxes.values()) - len(crossing) * TRACK
    parts = []
    for number, hop in enumerate(crossing):
        goes_right = hop.source in left.boxes
        here, there = (hop.source, hop.target) if goes_right else (hop.target, hop.source)
        start = left.boxes[here].right, ports.next(here, left.boxes[here])
        end = right.boxes[there].x, ports.next(there, right.boxes[there])
        x = first_x + (number + 0.5) * TRACK
        parts.append(detour(hop, *((start, end) if goes_right else (end, start)), x=x))
    return together(parts, width=0, height=0)


def _crossing(hops: Sequence[Hop], left: Placed, right: Placed) -> list[Hop]:
    sides = {**dict.fromkeys(left.boxes, "left"), **dict.fromkeys(right.boxes, "right")}
    return [
        hop for hop in hops if {sides.get(hop.source), sides.get(hop.target)} == {"left", "right"}
    ]
