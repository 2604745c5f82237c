"""Cards of machines: their GPUs as bars, pipelines between them, one stack of them or two.

GPUs of one tensor-parallel group are one bar; where tasks share a GPU, each gets a lane of it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby, product
from typing import Literal

from hetrl_cli.picture.cards import LOOKS, Card, Cell
from hetrl_cli.picture.flows import Hop
from hetrl_cli.picture.shapes import (
    BODY,
    INK,
    QUIET,
    SMALL,
    TIMES,
    Arrow,
    Bar,
    Box,
    Drawing,
    Label,
    Panel,
    PanelKind,
    fitted,
    shortened,
    text_width,
    together,
)
from hetrl_core.task import Task

CELL_WIDTH, CELL_HEIGHT, LANE_HEIGHT = 42.0, 38.0, 20.0
CELLS_PER_ROW = 8
MIN_CELLS = 6
"""A card is as wide as so many cells at least: its name needs the room."""

TALLY_CELLS = 4
"""Cells that a count of GPUs is wide."""

CELL_GAP, LANE_GAP, ROW_GAP = 3.0, 1.0, 4.0
LINE, TWO_LINES = 14.0, 34.0
"""Height of a line on a bar, and of a bar that holds two."""

PADDING, HEADER, FOOTER = 9.0, 20.0, 15.0
CARD_GAP, HOP_GAP = 12.0, 24.0
TRACK = 30.0
"""Width of one track at the side of a stack: the count on it must fit."""

FIRST_HOP, NEXT_HOP = 26.0, 58.0
STACK_DEPTH = 7.0
"""How far the machines beneath look out from a card that stands for several."""

HIGHEST = 4
"""Cards of one stack; more of them stand in two, for paper is wider than high."""

NumberedCard = tuple[int, Card]
Point = tuple[float, float]
Boxes = Mapping[int | str, Box]
Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Neighbours that do one task together, or one idle cell."""

    columns: range
    task: Task | None
    is_odd: bool = False
    lines: tuple[str, ...] = ()

    def order(self) -> tuple[bool, int, int]:
        """Order the widest first: they need lanes that are free on all their GPUs."""
        looks = [*LOOKS, None]
        return self.task is None, -len(self.columns), looks.index(self.task)


def stacks(cards: Sequence[NumberedCard], hops: Sequence[Hop], *, tracks_on: Side) -> Drawing:
    """Draw cards one below the other, in one stack or two, with the hops among them."""
    if len(cards) <= HIGHEST:
        return _stack(cards, hops, tracks_on=tracks_on)
    half = (len(cards) + 1) // 2
    left = _stack(cards[:half], hops, tracks_on="left")
    right = _stack(cards[half:], hops, tracks_on="right")
    crossing = [
        hop
        for hop in hops
        if (hop.source in left.boxes and hop.target in right.boxes)
        or (hop.source in right.boxes and hop.target in left.boxes)
    ]
    gap = max(1, len(crossing)) * TRACK
    right = right.moved(left.width + gap, 0)
    return together(
        [left, right, _across(crossing, left, right)],
        width=left.width + gap + right.width,
        height=max(left.height, right.height),
    )


def _stack(cards: Sequence[NumberedCard], hops: Sequence[Hop], *, tracks_on: Side) -> Drawing:
    """Draw cards and the hops among them.

    A hop to the next card is a short arrow; one that passes over cards takes a track at the side.
    """
    order = {number: place for place, (number, _) in enumerate(cards)}
    inside = [hop for hop in hops if hop.source in order and hop.target in order]
    span = {hop: abs(order[hop.source] - order[hop.target]) for hop in inside}
    near = [hop for hop in inside if span[hop] == 1]
    far = sorted((hop for hop in inside if span[hop] > 1), key=lambda hop: span[hop])
    tracks = len(far) * TRACK
    width = max(_card_width(card) for _, card in cards)
    drawings: list[Drawing] = []
    y = 0.0
    for number, card in cards:
        drawing = _card(number, card, width).moved(tracks if tracks_on == "left" else 0.0, y)
        drawings.append(drawing)
        y += drawing.height + STACK_DEPTH + (HOP_GAP if near else CARD_GAP)
    stacked = together(drawings)
    bottom = stacked.boxes[cards[-1][0]].bottom
    return together(
        [stacked, _short(near, stacked.boxes), _long(far, stacked.boxes, tracks_on=tracks_on)],
        width=width + STACK_DEPTH + tracks,
        height=bottom + STACK_DEPTH,
    )


def _short(hops: Sequence[Hop], boxes: Boxes) -> Drawing:
    shapes: list[Arrow | Label] = []
    counts = Counter(frozenset({hop.source, hop.target}) for hop in hops)
    places: Counter[frozenset[int]] = Counter()
    for hop in hops:
        source, target = boxes[hop.source], boxes[hop.target]
        pair = frozenset({hop.source, hop.target})
        step = min(NEXT_HOP, (source.width - FIRST_HOP) / counts[pair])
        x = source.x + FIRST_HOP + places[pair] * step
        places[pair] += 1
        upper, lower = sorted((source, target), key=lambda box: box.y)
        ends = ((x, upper.bottom), (x, lower.y))
        points = ends if source is upper else ends[::-1]
        middle = (upper.bottom + STACK_DEPTH + lower.y) / 2
        shapes += [
            Arrow(points=points, colour=LOOKS[hop.task].odd_fill),
            Label(x=x + 7, y=middle, text=f"{TIMES}{hop.num_replicas}"),
        ]
    return Drawing(shapes=tuple(shapes))


def _long(hops: Sequence[Hop], boxes: Boxes, *, tracks_on: Side) -> Drawing:
    ports = _Ports(boxes)
    parts = []
    for number, hop in enumerate(hops):
        source, target = boxes[hop.source], boxes[hop.target]
        away = number * TRACK + TRACK / 2
        if tracks_on == "left":
            x, edges = source.x - away, (source.x, target.x)
        else:
            x, edges = source.right + STACK_DEPTH + away, (source.right, target.right)
        start, end = (edges[0], ports.next(hop.source)), (edges[1], ports.next(hop.target))
        parts.append(_detour(hop, start, end, x=x))
    return together(parts)


def _across(hops: Sequence[Hop], left: Drawing, right: Drawing) -> Drawing:
    """Draw the hops between cards at the left and cards at the right, each on its own track."""
    boxes = {**left.boxes, **right.boxes}
    ports = _Ports(boxes)
    first_x = min(box.x for box in right.boxes.values()) - len(hops) * TRACK
    parts = []
    for number, hop in enumerate(hops):
        start, end = (
            (boxes[card].right if card in left.boxes else boxes[card].x, ports.next(card))
            for card in (hop.source, hop.target)
        )
        x = first_x + (number + 0.5) * TRACK
        parts.append(_detour(hop, start, end, x=x))
    return together(parts)


def _detour(hop: Hop, start: Point, end: Point, *, x: float) -> Drawing:
    """Draw a hop over a vertical line at ``x``, with its count on it."""
    points = (start, (x, start[1]), (x, end[1]), end)
    arrow = Arrow(points=points, colour=LOOKS[hop.task].odd_fill)
    label = Label(
        x=x,
        y=(start[1] + end[1]) / 2,
        text=f"{TIMES}{hop.num_replicas}",
        anchor="center",
        has_paper=True,
    )
    return Drawing(shapes=(arrow, label))


class _Ports:
    """Points where lines meet the side of a card: 1/2, 1/4, 3/4, 1/8, ... of its height.

    So that no two lines meet at one point, however many there are (van der Corput, 1935).
    """

    def __init__(self, boxes: Boxes) -> None:
        self._boxes = boxes
        self._used: Counter[int] = Counter()

    def next(self, card: int) -> float:
        """Return the y of the card's next port."""
        self._used[card] += 1
        digits = f"{self._used[card]:b}"[::-1]
        box = self._boxes[card]
        return box.y + int(digits, 2) / (1 << len(digits)) * box.height


def _card_width(card: Card) -> float:
    cells = CELLS_PER_ROW if card.is_tally else min(card.gpus_per_machine, CELLS_PER_ROW)
    return max(cells, MIN_CELLS) * CELL_WIDTH + 2 * PADDING


def _card(number: int, card: Card, width: float) -> Drawing:
    """Draw a card: its name, its GPUs in rows, and the layers of its stages."""
    lanes = max(len(cell.tasks) for cell in card.cells)
    row_height = max(CELL_HEIGHT, lanes * LANE_HEIGHT)
    cells_wide = TALLY_CELLS if card.is_tally else 1
    per_row = CELLS_PER_ROW // cells_wide
    rows = []
    y = PADDING + HEADER
    for start in range(0, len(card.cells), per_row):
        cells = card.cells[start : start + per_row]
        row = _row(cells, cell_width=cells_wide * CELL_WIDTH, height=row_height)
        rows.append(row.moved(PADDING, y))
        y += row_height + ROW_GAP
    notes = _stages(card)
    footer = [
        Label(
            x=PADDING,
            y=y + (line + 0.5) * FOOTER,
            colour=QUIET,
            text=shortened(note, SMALL, room=width - 2 * PADDING),
        )
        for line, note in enumerate(notes)
    ]
    height = y + len(notes) * FOOTER + PADDING - (ROW_GAP if not notes else 0)
    is_stack = len(card.machines) > 1
    frame = Panel(x=0, y=0, width=width, height=height, kind=PanelKind.MACHINE, is_stack=is_stack)
    words = Drawing(shapes=(frame, *_header(card, width), *footer), boxes={number: frame})
    return together([words, *rows], width=width, height=height)


def _header(card: Card, width: float) -> list[Label]:
    y, x = PADDING + HEADER / 2 - 3, width - PADDING
    labels = []
    if len(card.machines) > 1:
        count = f"{TIMES}{len(card.machines):,}"
        labels.append(Label(x=x, y=y, text=count, size=BODY, anchor="right", is_bold=True))
        x -= text_width(count, BODY, is_bold=True) + 6
    kind = f"{card.gpus_per_machine} {TIMES} {card.gpu_kind}"
    labels.append(Label(x=x, y=y, text=kind, anchor="right", colour=QUIET))
    room = x - text_width(kind, SMALL) - 10 - PADDING
    name = shortened(card.name, BODY, room=room, is_bold=True)
    return [Label(x=PADDING, y=y, text=name, size=BODY, is_bold=True), *labels]


def _stages(card: Card) -> list[str]:
    """Say which layers the stages on a machine have: ``T S0-S1: 13 layers, S2: 10 layers``."""
    layers: dict[Task, dict[int, int]] = {}
    for duty in (duty for cell in card.cells for duty in cell.duties):
        if duty.split.num_stages > 1:
            layers.setdefault(duty.task, {})[duty.stage] = duty.num_layers
    return [
        f"{LOOKS[task].letter} {', '.join(_layers(layers[task]))}"
        for task in LOOKS
        if task in layers
    ]


def _layers(layers: Mapping[int, int]) -> Iterator[str]:
    """Yield stages with their layers, neighbours with equally many once."""
    stages = enumerate(sorted(layers))
    for (_, number), same in groupby(stages, key=lambda at: (at[1] - at[0], layers[at[1]])):
        numbers = [stage for _, stage in same]
        first, last = numbers[0], numbers[-1]
        name = f"S{first}" if first == last else f"S{first}-S{last}"
        yield f"{name}: {number} layer{'s' if number > 1 else ''}"


def _row(cells: Sequence[Cell], *, cell_width: float, height: float) -> Drawing:
    """Draw GPUs side by side."""
    shapes: list[Bar | Label] = []
    for run, lanes, num_lanes in _lanes(sorted(_runs(cells), key=_Run.order)):
        lane_height = height / num_lanes
        is_last = lanes.stop == num_lanes
        bar = Bar(
            x=run.columns.start * cell_width + CELL_GAP / 2,
            y=lanes.start * lane_height,
            width=len(run.columns) * cell_width - CELL_GAP,
            height=len(lanes) * lane_height - (0 if is_last else LANE_GAP),
            task=run.task,
            is_odd=run.is_odd,
        )
        shapes += [bar, *_written(bar, run.lines)]
    return Drawing(shapes=tuple(shapes))


def _runs(cells: Sequence[Cell]) -> Iterator[_Run]:
    """Yield the bars of a row: for each task its neighbouring cells, and each idle cell."""
    for task in dict.fromkeys(task for cell in cells for task in cell.tasks or (None,)):
        keys = [_key(column, cell, task) for column, cell in enumerate(cells)]
        for key, same in groupby(range(len(cells)), key=keys.__getitem__):
            if key is not None:
                columns = list(same)
                yield _Run(
                    columns=range(columns[0], columns[-1] + 1),
                    task=task,
                    is_odd=bool(key[0] % 2),
                    lines=_words(cells[columns[0]], task, len(columns)),
                )


def _key(column: int, cell: Cell, task: Task | None) -> tuple[int, int] | None:
    """Return what makes neighbours one bar: the same stage of the same replica."""
    if task not in (cell.tasks or (None,)):
        return None
    duty = cell.duty(task)
    return (duty.replica, duty.stage) if duty else (0, column)


def _words(cell: Cell, task: Task | None, width: int) -> tuple[str, ...]:
    duty = cell.duty(task)
    if task is None:
        return () if cell.is_one else (f"idle: {cell.num_gpus:,}",)
    letter = LOOKS[task].letter
    if duty is None:
        return (f"{letter}: {cell.num_gpus:,} GPUs",)
    stage = [f"S{duty.stage}"] if duty.split.num_stages > 1 else []
    tensor = [f"tp{duty.split.tensor}"] if duty.split.tensor > 1 and width > 1 else []
    return (f"{letter}{duty.replica}", *([" ".join(stage + tensor)] if stage + tensor else []))


def _lanes(runs: Sequence[_Run]) -> Iterator[tuple[_Run, range, int]]:
    """Yield each run with its lanes and the number of lanes: tasks that share a GPU divide it."""
    taken: set[tuple[int, int]] = set()

    def is_free(run: _Run, lane: int) -> bool:
        return taken.isdisjoint(product(run.columns, [lane]))

    firsts = []
    for run in runs:
        first = next(lane for lane in count() if is_free(run, lane))
        taken.update(product(run.columns, [first]))
        firsts.append(first)
    num_lanes = max(firsts, default=0) + 1
    for run, first in zip(runs, firsts, strict=True):
        stop = first + 1
        while stop < num_lanes and is_free(run, stop):
            taken.update(product(run.columns, [stop]))
            stop += 1
        yield run, range(first, stop), num_lanes


def _written(bar: Bar, lines: Sequence[str]) -> list[Label]:
    """Write on a bar, in one line where two have no room."""
    if bar.height < TWO_LINES:
        lines = [" ".join(lines)] if lines else []
    top = bar.y + bar.height / 2 - LINE * (len(lines) - 1) / 2
    return [
        Label(
            x=bar.x + bar.width / 2,
            y=top + number * LINE,
            text=line,
            anchor="center",
            colour=LOOKS[bar.task].text if bar.task else INK,
            size=fitted(line, SMALL if number else BODY, room=bar.width - 4),
        )
        for number, line in enumerate(lines)
    ]
