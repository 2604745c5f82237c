"""One region: rollouts at the left, all others at the right, what flows between them, the rest."""

from collections.abc import Sequence
from dataclasses import replace

from hetrl_cli.picture.content.cards import Card
from hetrl_cli.picture.content.movement import FlowKind, Hop, RegionFlow
from hetrl_cli.picture.content.sides import NumberedCard, lines, sides, title
from hetrl_cli.picture.drawing.column import Heading, column
from hetrl_cli.picture.drawing.lettering import BODY, HEADING, SMALL, shortened, text_width
from hetrl_cli.picture.drawing.shapes import (
    Arrow,
    Box,
    Drawing,
    Label,
    Panel,
    PanelKind,
    Tone,
    together,
)
from hetrl_cli.picture.drawing.unused import unused_machines
from hetrl_core.plan.plan import Plan

PADDING, HEADER = 14.0, 36.0
MARGIN = 16.0
"""Between a flow's words and the columns at its sides."""

NAME_ROOM = 240.0
LINE = 15.0
REST_GAP = 8.0


def region(
    name: str,
    link: str,
    *,
    cards: Sequence[Card],
    hops: Sequence[Hop],
    flows: Sequence[RegionFlow],
    plan: Plan,
) -> Drawing:
    """Draw a region at the origin; ``flows`` are those that stay inside."""
    found = sides(cards, name, hops)
    both = bool(found.rollouts and found.others)
    between = [flow for flow in flows if both and not flow.stays]
    own = [(f"↻ {flow.kind}: {flow.amount}", flow.kind) for flow in flows if flow not in between]
    columns = []
    if found.rollouts:
        heading = _heading(plan, found.rollouts, ())
        columns.append(column(found.rollouts, hops, heading, tracks_on="left"))
    if found.others:
        heading = _heading(plan, found.others, own)
        columns.append(column(found.others, hops, heading, tracks_on="right"))
    gap = _gap(between) if both else 0.0
    placed, x = [], PADDING
    for each in columns:
        placed.append(each.moved(x, HEADER))
        x += each.drawing.width + gap
    head = _name(name, link)
    width = max(x - gap + PADDING, head.width)
    bottom = max((each.drawing.height for each in columns), default=0.0) + HEADER
    parts = [each.drawing for each in placed]
    if both:
        parts.append(_between(between, left=PADDING + columns[0].drawing.width, gap=gap))
    rest = unused_machines(found.unused, width=width - 2 * PADDING)
    rest = rest.moved(PADDING, bottom + REST_GAP)
    height = bottom + (REST_GAP + rest.height if found.unused else 0) + PADDING
    box = Box(x=0, y=0, width=width, height=height)
    frame = replace(head, panels=(Panel(box=box, kind=PanelKind.REGION),))
    return together([frame, *parts, rest], width=width, height=height)


def _heading(
    plan: Plan, cards: Sequence[NumberedCard], notes: Sequence[tuple[str, FlowKind]]
) -> Heading:
    said: list[tuple[str, FlowKind | Tone]] = [(line, Tone.QUIET) for line in lines(plan, cards)]
    return Heading(title=title(cards), lines=(*said, *notes))


def _name(name: str, link: str) -> Drawing:
    said = shortened(name, HEADING, room=NAME_ROOM, is_bold=True)
    x = PADDING + text_width(said, HEADING, is_bold=True) + 10
    labels = (
        Label(at=(PADDING, HEADER / 2), text=said, size=HEADING, is_bold=True),
        Label(at=(x, HEADER / 2), text=link, size=SMALL, ink=Tone.QUIET),
    )
    return Drawing(width=x + text_width(link, SMALL) + PADDING, height=HEADER, labels=labels)


def _words(flow: RegionFlow) -> list[str]:
    return [part for part in flow.amount.split(", ") if part]


def _gap(flows: Sequence[RegionFlow]) -> float:
    words = [text_width(word, SMALL) for flow in flows for word in _words(flow)]
    kinds = [text_width(flow.kind, BODY, is_bold=True) for flow in flows]
    return max([*words, *kinds, 40.0]) + 2 * MARGIN


def _between(flows: Sequence[RegionFlow], *, left: float, gap: float) -> Drawing:
    """Draw flows between the columns: trajectories to the right, weights to the left."""
    arrows, labels, y = [], [], HEADER + 22
    center = left + gap / 2
    for flow in flows:
        labels.append(
            Label(
                at=(center, y),
                text=flow.kind,
                size=BODY,
                anchor="center",
                ink=flow.kind,
                is_bold=True,
            )
        )
        for word in _words(flow):
            y += LINE
            labels.append(Label(at=(center, y), text=word, size=SMALL, anchor="center"))
        y += LINE - 2
        ends = ((left + 2, y), (left + gap - 2, y))
        goes_right = flow.kind is FlowKind.TRAJECTORIES
        arrows.append(Arrow(points=ends if goes_right else ends[::-1], ink=flow.kind))
        y += 24
    return Drawing(width=0, height=y, arrows=tuple(arrows), labels=tuple(labels))
