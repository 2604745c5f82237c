"""One card: machines that are alike, with their GPUs and the layers of their stages."""

from collections.abc import Iterator, Mapping
from itertools import groupby

from hetrl_cli.picture.content.cards import Card
from hetrl_cli.picture.content.palette import LOOKS, TIMES
from hetrl_cli.picture.drawing.bars import row
from hetrl_cli.picture.drawing.lettering import BODY, SMALL, shortened, text_width
from hetrl_cli.picture.drawing.shapes import Box, Drawing, Label, Panel, PanelKind, Tone, together
from hetrl_core.task import Task

CELL_WIDTH, CELL_HEIGHT, LANE_HEIGHT = 42.0, 38.0, 20.0
PADDING = 9.0
HEADER, FOOTER = 20.0, 15.0
ROW_GAP = 4.0
CELLS_PER_ROW = 8
MIN_CELLS = 6
"""A card is as wide as so many cells at least: its name needs the room."""

TALLY_CELLS = 4
"""Cells that a count of GPUs is wide."""


def card_width(card: Card) -> float:
    """Return the width that a card needs."""
    cells = CELLS_PER_ROW if card.is_tally else min(card.gpus_per_machine, CELLS_PER_ROW)
    return max(cells, MIN_CELLS) * CELL_WIDTH + 2 * PADDING


def machine(card: Card, *, width: float) -> Drawing:
    """Draw a card, at the origin."""
    lanes = max(len(cell.tasks) for cell in card.cells)
    step = max(CELL_HEIGHT, lanes * LANE_HEIGHT) + ROW_GAP
    wide = TALLY_CELLS if card.is_tally else 1
    per_row = CELLS_PER_ROW // wide
    starts = range(0, len(card.cells), per_row)
    top = PADDING + HEADER
    rows = [
        row(
            card.cells[start : start + per_row],
            cell_width=wide * CELL_WIDTH,
            height=step - ROW_GAP,
        ).moved(PADDING, top + number * step)
        for number, start in enumerate(starts)
    ]
    notes = _stages(card)
    y = top + len(rows) * step
    height = y + len(notes) * FOOTER + PADDING - (ROW_GAP if not notes else 0)
    footer = tuple(
        Label(
            at=(PADDING, y + (number + 0.5) * FOOTER),
            size=SMALL,
            ink=Tone.QUIET,
            text=shortened(note, SMALL, room=width - 2 * PADDING),
        )
        for number, note in enumerate(notes)
    )
    frame = Panel(
        box=Box(x=0, y=0, width=width, height=height),
        kind=PanelKind.MACHINE,
        is_stack=len(card.machines) > 1,
    )
    words = Drawing(width=0, height=0, panels=(frame,), labels=(*_header(card, width), *footer))
    return together([words, *rows], width=width, height=height)


def _header(card: Card, width: float) -> list[Label]:
    y, x = PADDING + HEADER / 2 - 3, width - PADDING
    found = []
    if len(card.machines) > 1:
        count = f"{TIMES}{len(card.machines):,}"
        found.append(Label(at=(x, y), text=count, size=BODY, anchor="right", is_bold=True))
        x -= text_width(count, BODY, is_bold=True) + 6
    kind = f"{card.gpus_per_machine} {TIMES} {card.gpu_kind}"
    found.append(Label(at=(x, y), text=kind, size=SMALL, anchor="right", ink=Tone.QUIET))
    room = x - text_width(kind, SMALL) - 10 - PADDING
    name = shortened(card.name, BODY, room=room, is_bold=True)
    return [Label(at=(PADDING, y), text=name, size=BODY, is_bold=True), *found]


def _stages(card: Card) -> list[str]:
    """Say which layers the stages on a machine have: ``T S0-S1: 13 layers, S2: 10 layers``."""
    layers: dict[Task, dict[int, int]] = {}
    for duty in (duty for cell in card.cells for duty in cell.duties):
        if duty.split.num_stages > 1:
            layers.setdefault(duty.task, {})[duty.stage] = duty.num_layers
    return [
        f"{LOOKS[task].letter} {', '.join(_alike(layers[task]))}"
        for task in LOOKS
        if task in layers
    ]


def _alike(layers: Mapping[int, int]) -> Iterator[str]:
    """Yield stages with their layers, neighbours with equally many once."""
    stages = enumerate(sorted(layers))
    for (_, number), same in groupby(stages, key=lambda at: (at[1] - at[0], layers[at[1]])):
        numbers = [stage for _, stage in same]
        first, last = numbers[0], numbers[-1]
        name = f"S{first}" if first == last else f"S{first}-S{last}"
        yield f"{name}: {number} layer{'s' if number > 1 else ''}"
