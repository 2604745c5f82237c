"""Cards one below the other, and the hops of pipelines between them.

A hop to the next card is a short arrow; one that passes over cards takes a track at the side.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hetrl_cli.picture.content.movement import Hop
from hetrl_cli.picture.content.palette import TIMES
from hetrl_cli.picture.content.sides import NumberedCard
from hetrl_cli.picture.drawing.lettering import SMALL
from hetrl_cli.picture.drawing.machine import card_width, machine
from hetrl_cli.picture.drawing.shapes import Arrow, Box, Drawing, Label, together

CARD_GAP, HOP_GAP = 12.0, 24.0
TRACK = 30.0
"""Width of one track at the side: the count on it must fit."""

FIRST_HOP, NEXT_HOP = 26.0, 58.0
STACK_DEPTH = 7.0
"""How far the machines beneath look out from a card that stands for several."""

Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A drawing, and where each card is on it."""

    drawing: Drawing
    boxes: Mapping[int, Box]

    def moved(self, dx: float, dy: float) -> "Placed":
        """Return it elsewhere."""
        boxes = {number: box.moved(dx, dy) for number, box in self.boxes.items()}
        return Placed(drawing=self.drawing.moved(dx, dy), boxes=boxes)


def stack(
    cards: Sequence[NumberedCard], hops: Sequence[Hop], *, tracks_on: Side, card_room: float = 0.0
) -> Placed:
    """Draw cards and the hops among them, at the origin; cards have at least a given width."""
    order = [number for number, _ in cards]
    inside = [hop for hop in hops if hop.source in order and hop.target in order]
    span = {hop: abs(order.index(hop.source) - order.index(hop.target)) for hop in inside}
    near = [hop for hop in inside if span[hop] == 1]
    far = sorted((hop for hop in inside if span[hop] > 1), key=lambda hop: span[hop])
    tracks = len(far) * TRACK
    width = max(card_room, *(card_width(card) for _, card in cards))
    left = tracks if tracks_on == "left" else 0.0
    boxes, drawings, y = {}, [], 0.0
    for number, card in cards:
        drawn = machine(card, width=width).moved(left, y)
        drawings.append(drawn)
        boxes[number] = Box(x=left, y=y, width=width, height=drawn.height)
        y += drawn.height + STACK_DEPTH + (HOP_GAP if near else CARD_GAP)
    drawing = together(
        [*drawings, _short(near, boxes), _long(far, boxes, tracks_on=tracks_on)],
        width=width + STACK_DEPTH + tracks,
        height=boxes[order[-1]].bottom + STACK_DEPTH,
    )
    return Placed(drawing=drawing, boxes=boxes)


def _short(hops: Sequence[Hop], boxes: Mapping[int, Box]) -> Drawing:
    arrows, labels = [], []
    counts = Counter(frozenset({hop.source, hop.target}) for hop in hops)
    places: Counter[frozenset[int]] = Counter()
    for hop in hops:
        source, target = boxes[hop.source], boxes[hop.target]
        pair = frozenset({hop.source, hop.target})
        step = min(NEXT_HOP, (source.width - FIRST_HOP) / counts[pair])
        x = source.x + FIRST_HOP + places[pair] * step
        places[pair] += 1
        goes_down = source.y < target.y
        upper, lower = (source, target) if goes_down else (target, source)
        ends = ((x, upper.bottom), (x, lower.y))
        arrows.append(Arrow(points=ends if goes_down else ends[::-1], ink=hop.task))
        middle = (upper.bottom + STACK_DEPTH + lower.y) / 2
        labels.append(Label(at=(x + 7, middle), text=f"{TIMES}{hop.num_replicas}", size=SMALL))
    return Drawing(width=0, height=0, arrows=tuple(arrows), labels=tuple(labels))


def _long(hops: Iterable[Hop], boxes: Mapping[int, Box], *, tracks_on: Side) -> Drawing:
    ports = Ports()
    parts = []
    for number, hop in enumerate(hops):
        source, target = boxes[hop.source], boxes[hop.target]
        away = number * TRACK + TRACK / 2
        if tracks_on == "left":
            x, edges = source.x - away, (source.x, target.x)
        else:
            x, edges = source.right + STACK_DEPTH + away, (source.right, target.right)
        start = edges[0], ports.next(hop.source, source)
        end = edges[1], ports.next(hop.target, target)
        parts.append(detour(hop, start, end, x=x))
    return together(parts, width=0, height=0)


def detour(hop: Hop, start: tuple[float, float], end: tuple[float, float], *, x: float) -> Drawing:
    """Draw a hop over a vertical line at ``x``, with its count on it."""
    points = (start, (x, start[1]), (x, end[1]), end)
    label = Label(
        at=(x, (start[1] + end[1]) / 2),
        text=f"{TIMES}{hop.num_replicas}",
        size=SMALL,
        anchor="center",
        has_paper=True,
    )
    return Drawing(width=0, height=0, arrows=(Arrow(points=points, ink=hop.task),), labels=(label,))


class Ports:
    """Where lines meet the side of a card: 1/2, 1/4, 3/4, 1/8, ... of its height.

    So that no two lines meet at one point, however many there are (van der Corput, 1935).
    """

    def __init__(self) -> None:
        self._used: dict[int, int] = {}

    def next(self, card: int, box: Box) -> float:
        """Return the y of the card's next port."""
        number = self._used[card] = self._used.get(card, 0) + 1
        place, part = 0.0, 0.5
        while number:
            place += part * (number % 2)
            number, part = number // 2, part / 2
        return box.y + place * box.height
