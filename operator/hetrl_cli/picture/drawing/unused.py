"""Unused resources, in grey: whole regions, and machines of regions that the plan uses."""

from collections import defaultdict
from collections.abc import Sequence

from hetrl_cli.picture.content.cards import Card
from hetrl_cli.picture.content.palette import TIMES
from hetrl_cli.picture.drawing.lettering import HEADING, SMALL, shortened, wrapped
from hetrl_cli.picture.drawing.shapes import Box, Drawing, Label, Panel, PanelKind, Tone

WIDTH, PADDING = 250.0, 14.0
LINE, HEADER = 16.0, 36.0
CHIP_HEIGHT, CHIP_GAP = 24.0, 6.0
MAX_REGIONS = 12
"""Regions that are named; of the others only the number is said."""


def unused_regions(cards: Sequence[Card]) -> Drawing | None:
    """Draw regions of which the plan takes nothing as one box; ``None`` where there is none."""
    if not cards:
        return None
    total = sum(_num_gpus(card) for card in cards)
    text = [
        line for said in _said(cards) for line in wrapped(said, SMALL, room=WIDTH - 2 * PADDING)
    ]
    head = Label(
        at=(PADDING, HEADER / 2),
        text=f"Not used: {total:,} GPUs",
        size=HEADING,
        is_bold=True,
        ink=Tone.QUIET,
    )
    lines = [
        Label(at=(PADDING, HEADER + LINE * (number + 0.5)), text=line, size=SMALL, ink=Tone.QUIET)
        for number, line in enumerate(text)
    ]
    box = Box(x=0, y=0, width=WIDTH, height=HEADER + LINE * len(lines) + PADDING)
    return Drawing(
        width=box.width,
        height=box.height,
        panels=(Panel(box=box, kind=PanelKind.UNUSED),),
        labels=(head, *lines),
    )


def unused_machines(cards: Sequence[Card], *, width: float) -> Drawing:
    """Draw machines of a region that the plan does not use, a strip for those that are alike."""
    panels, labels = [], []
    for number, card in enumerate(cards):
        y = number * (CHIP_HEIGHT + CHIP_GAP)
        box = Box(x=0, y=y, width=width, height=CHIP_HEIGHT)
        panels.append(Panel(box=box, kind=PanelKind.UNUSED))
        many = "1 machine" if len(card.machines) == 1 else f"{len(card.machines):,} machines"
        said = f"not used: {many} of {card.gpus_per_machine} {TIMES} {card.gpu_kind}"
        text = shortened(said, SMALL, room=width - 16)
        at = (8.0, y + CHIP_HEIGHT / 2)
        labels.append(Label(at=at, text=text, size=SMALL, ink=Tone.QUIET))
    height = len(cards) * (CHIP_HEIGHT + CHIP_GAP)
    return Drawing(width=width, height=height, panels=tuple(panels), labels=tuple(labels))


def _said(cards: Sequence[Card]) -> list[str]:
    kinds: dict[str, list[str]] = defaultdict(list)
    for card in cards:
        kinds[card.region].append(f"{_num_gpus(card):,} {card.gpu_kind}")
    said = [f"{region}: {', '.join(each)}" for region, each in kinds.items()]
    more = len(said) - MAX_REGIONS
    return [*said[:MAX_REGIONS], f"and {more} more regions"] if more > 0 else said


def _num_gpus(card: Card) -> int:
    return len(card.machines) * card.gpus_per_machine
