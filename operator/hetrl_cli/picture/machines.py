"""Cards of machines: their GPUs as bars, pipelines between them, one stack of them or two.

GPUs of one tensor-parallel group are one bar; where tasks share a GPU, each gets a lane of it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby, product
from typing import Literal

from hetrl_cli.picture.canvas import (
    BODY,
    QUIET,
    SMALL,
    TIMES,
    Box,
    Canvas,
    Layer,
    Point,
    fitted,
    shortened,
    text_width,
)
from hetrl_cli.picture.cards import IDLE, LOOKS, Card, Cell
from hetrl_cli.picture.flows import Hop
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

STACK_OFFSETS = (6.0, 3.0)

NumberedCard = tuple[int, Card]
Boxes = Mapping[int, Box]
"""Where cards are, by their numbers."""

Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stack:
    """Cards one below the other, and the hops among them."""

    cards: Sequence[NumberedCard]
    hops: Sequence[Hop]
    tracks_on: Side

    @property
    def near(self) -> list[Hop]:
        """Hops to the next card: short arrows."""
        return [hop for hop in self.hops if self._span(hop) == 1]

    @property
    def far(self) -> list[Hop]:
        """Hops that pass over cards: each takes a track at the side."""
        return sorted((hop for hop in self.hops if self._span(hop) > 1), key=self._span)

    @property
    def card_width(self) -> float:
        """The width of its widest card, which all get."""
        return max(_card_width(card) for _, card in self.cards)

    @property
    def width(self) -> float:
        """The width with its tracks."""
        return self.card_width + STACK_DEPTH + len(self.far) * TRACK

    def draw(self, canvas: Canvas, x: float, y: float) -> Boxes:
        """Draw it from its upper left corner."""
        x += len(self.far) * TRACK if self.tracks_on == "left" else 0.0
        boxes: dict[int, Box] = {}
        for number, card in self.cards:
            boxes[number] = _draw_card(canvas, card, x, y, self.card_width)
            y = boxes[number].bottom + STACK_DEPTH + (HOP_GAP if self.near else CARD_GAP)
        _draw_near(canvas, self.near, boxes)
        _draw_far(canvas, self.far, boxes, tracks_on=self.tracks_on)
        return boxes

    def _span(self, hop: Hop) -> int:
        order = [number for number, _ in self.cards]
        inside = hop.source in order and hop.target in order
        return abs(order.index(hop.source) - order.index(hop.target)) if inside else 0


class Stacks:
    """Cards in one stack, or two if it were too high, with the hops among them."""

    def __init__(
        self, cards: Sequence[NumberedCard], hops: Sequence[Hop], *, tracks_on: Side
    ) -> None:
        half = (len(cards) + 1) // 2
        self._stacks = [_Stack(cards=cards, hops=hops, tracks_on=tracks_on)]
        if len(cards) > HIGHEST:
            self._stacks = [
                _Stack(cards=cards[:half], hops=hops, tracks_on="left"),
                _Stack(cards=cards[half:], hops=hops, tracks_on="right"),
            ]
        of = {card: place for place, stack in enumerate(self._stacks) for card, _ in stack.cards}
        self._across = [hop for hop in hops if {of.get(hop.source), of.get(hop.target)} == {0, 1}]
        self._gap = max(1, len(self._across)) * TRACK
        self.width = sum(stack.width for stack in self._stacks)
        self.width += self._gap * (len(self._stacks) - 1)

    def draw(self, canvas: Canvas, x: float, y: float) -> float:
        """Draw them from their upper left corner; return the y of their lower edge."""
        boxes = []
        for stack in self._stacks:
            boxes.append(stack.draw(canvas, x, y))
            x += stack.width + self._gap
        if self._across:
            _draw_across(canvas, self._across, *boxes)
        return max(box.bottom for some in boxes for box in some.values()) + STACK_DEPTH


def _draw_near(canvas: Canvas, hops: Sequence[Hop], boxes: Boxes) -> None:
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
        canvas.line(points, LOOKS[hop.task].odd_fill)
        middle = (upper.bottom + STACK_DEPTH + lower.y) / 2
        canvas.text(x + 7, middle, f"{TIMES}{hop.num_replicas}")


def _draw_far(canvas: Canvas, hops: Sequence[Hop], boxes: Boxes, *, tracks_on: Side) -> None:
    for number, (hop, y, other_y) in enumerate(_ports(hops, boxes)):
        source, target = boxes[hop.source], boxes[hop.target]
        away = (number + 0.5) * TRACK
        if tracks_on == "left":
            x, start, end = source.x - away, source.x, target.x
        else:
            x, start, end = source.right + STACK_DEPTH + away, source.right, target.right
        _draw_detour(canvas, hop, (start, y), (end, other_y), x=x)


def _draw_across(canvas: Canvas, hops: Sequence[Hop], left: Boxes, right: Boxes) -> None:
    """Draw the hops between cards at the left and cards at the right, each on its own track."""
    boxes = {**left, **right}
    x = min(box.x for box in right.values()) - (len(hops) - 0.5) * TRACK
    for hop, y, other_y in _ports(hops, boxes):
        start, end = (
            boxes[card].right if card in left else boxes[card].x
            for card in (hop.source, hop.target)
        )
        _draw_detour(canvas, hop, (start, y), (end, other_y), x=x)
        x += TRACK


def _draw_detour(canvas: Canvas, hop: Hop, start: Point, end: Point, *, x: float) -> None:
    """Draw a hop over a vertical line at ``x``, with its count on it."""
    canvas.line((start, (x, start[1]), (x, end[1]), end), LOOKS[hop.task].odd_fill)
    y = (start[1] + end[1]) / 2
    canvas.text(x, y, f"{TIMES}{hop.num_replicas}", anchor="center", has_paper=True)


def _ports(hops: Sequence[Hop], boxes: Boxes) -> Iterator[tuple[Hop, float, float]]:
    """Yield hops with the y of both ends: 1/2, 1/4, 3/4, 1/8, ... of the card's height.

    So that no two lines meet at one point, however many there are (van der Corput, 1935).
    """
    used: Counter[int] = Counter()
    for hop in hops:
        used.update((hop.source, hop.target))
        y, other_y = (
            boxes[card].y + _reversed_bits(used[card]) * boxes[card].height
            for card in (hop.source, hop.target)
        )
        yield hop, y, other_y


def _reversed_bits(number: int) -> float:
    digits = f"{number:b}"[::-1]
    return int(digits, 2) / (1 << len(digits))


def _card_width(card: Card) -> float:
    cells = CELLS_PER_ROW if card.is_tally else min(card.gpus_per_machine, CELLS_PER_ROW)
    return max(cells, MIN_CELLS) * CELL_WIDTH + 2 * PADDING


def _draw_card(canvas: Canvas, card: Card, x: float, y: float, width: float) -> Box:
    """Draw a card: its name, its GPUs in rows, and the layers of its stages."""
    row_height = max(CELL_HEIGHT, LANE_HEIGHT * max(len(cell.tasks) for cell in card.cells))
    cells_wide = TALLY_CELLS if card.is_tally else 1
    per_row = CELLS_PER_ROW // cells_wide
    bottom = y + PADDING + HEADER
    for start in range(0, len(card.cells), per_row):
        row = Box(x + PADDING, bottom, cells_wide * CELL_WIDTH, row_height)
        _draw_row(canvas, card.cells[start : start + per_row], row)
        bottom += row_height + ROW_GAP
    notes = _stages(card)
    for note in notes:
        text = shortened(note, SMALL, room=width - 2 * PADDING)
        canvas.text(x + PADDING, bottom + FOOTER / 2, text, colour=QUIET)
        bottom += FOOTER
    bottom += PADDING - (ROW_GAP if not notes else 0)
    box = Box(x, y, width, bottom - y)
    for offset in STACK_OFFSETS if len(card.machines) > 1 else ():
        canvas.panel(Box(x + offset, y + offset, width, box.height), Layer.BEHIND)
    canvas.panel(box, Layer.MACHINE)
    _draw_header(canvas, card, box)
    return box


def _draw_header(canvas: Canvas, card: Card, box: Box) -> None:
    left, right, y = box.x + PADDING, box.right - PADDING, box.y + PADDING + HEADER / 2 - 3
    if len(card.machines) > 1:
        count = f"{TIMES}{len(card.machines):,}"
        canvas.text(right, y, count, size=BODY, anchor="right", is_bold=True)
        right -= text_width(count, BODY, is_bold=True) + 6
    kind = f"{card.gpus_per_machine} {TIMES} {card.gpu_kind}"
    canvas.text(right, y, kind, anchor="right", colour=QUIET)
    room = right - text_width(kind, SMALL) - 10 - left
    name = shortened(card.name, BODY, room=room, is_bold=True)
    canvas.text(left, y, name, size=BODY, is_bold=True)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Neighbours that do one task together, or one idle cell."""

    columns: range
    task: Task | None
    is_odd: bool = False
    lines: tuple[str, ...] = ()


def _draw_row(canvas: Canvas, cells: Sequence[Cell], first: Box) -> None:
    """Draw GPUs side by side, the first in its box."""
    # The widest first: they need lanes that are free on all their GPUs.
    runs = sorted(_runs(cells), key=lambda run: len(run.columns), reverse=True)
    for run, lanes, num_lanes in _lanes(runs):
        lane_height = first.height / num_lanes
        is_last = lanes.stop == num_lanes
        box = Box(
            first.x + run.columns.start * first.width + CELL_GAP / 2,
            first.y + lanes.start * lane_height,
            len(run.columns) * first.width - CELL_GAP,
            len(lanes) * lane_height - (0 if is_last else LANE_GAP),
        )
        look = LOOKS[run.task] if run.task else IDLE
        canvas.bar(box, look.odd_fill if run.is_odd else look.fill, look.odd_fill)
        _write(canvas, box, run.lines, look.text)


def _runs(cells: Sequence[Cell]) -> Iterator[_Run]:
    """Yield the bars of a row: for each task its neighbouring cells, and each idle cell."""
    for task in (*LOOKS, None):
        keys = [_key(column, cell, task) for column, cell in enumerate(cells)]
        for key, same in groupby(range(len(cells)), key=keys.__getitem__):
            if key is not None:
                columns = list(same)
                yield _Run(
                    columns=range(columns[0], columns[-1] + 1),
                    task=task,
                    is_odd=bool(task and key[0] % 2),
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


def _write(canvas: Canvas, bar: Box, lines: Sequence[str], colour: str) -> None:
    """Write on a bar, in one line where two have no room."""
    if bar.height < TWO_LINES and lines:
        lines = [" ".join(lines)]
    x, y = bar.x + bar.width / 2, bar.y + bar.height / 2 - LINE * (len(lines) - 1) / 2
    for number, line in enumerate(lines):
        size = fitted(line, SMALL if number else BODY, room=bar.width - 4)
        canvas.text(x, y + number * LINE, line, size=size, anchor="center", colour=colour)
