"""The legend: the meaning of the colours, letters and lines that are on the sheet."""

from collections.abc import Mapping, Sequence

from hetrl_cli.picture.content.cards import Card
from hetrl_cli.picture.content.movement import FlowKind
from hetrl_cli.picture.content.palette import LOOKS, TIMES
from hetrl_cli.picture.drawing.lettering import SMALL, text_width
from hetrl_cli.picture.drawing.shapes import Arrow, Bar, Box, Drawing, Label, Tone, together
from hetrl_core.task import Task

LINE = 24.0
SWATCH = 20.0
SPACE = 26.0

FLOW_WORDS = {
    FlowKind.TRAJECTORIES: "trajectories",
    FlowKind.WEIGHTS: "new weights",
    FlowKind.PIPELINE: f"activations to the next stage, {TIMES}n replicas",
    FlowKind.GRADIENTS: "gradients, summed over replicas",
}


def legend(
    cards: Sequence[Card], inks: Mapping[FlowKind, FlowKind | Task], *, width: float
) -> Drawing:
    """Draw the legend in lines of a width, at the origin; ``inks`` are those of the flows."""
    tasks = {task for card in cards for task in card.tasks}
    items = [
        *(_task(task) for task in LOOKS if task in tasks),
        *([_idle()] if any(card.tasks and _has_idle(card) for card in cards) else []),
        *(_flow(kind, inks[kind]) for kind in FlowKind if kind in inks),
        *(_note(text) for text in _notes(cards)),
    ]
    placed, x, y = [], 0.0, LINE / 2
    for item in items:
        if x and x + item.width > width:
            x, y = 0.0, y + LINE
        placed.append(item.moved(x, y))
        x += item.width + SPACE
    return together(placed, width=width, height=y + LINE / 2)


def _task(task: Task) -> Drawing:
    look = LOOKS[task]
    bar = Bar(box=Box(x=0, y=-SWATCH / 2, width=SWATCH, height=SWATCH), task=task)
    letter = Label(at=(SWATCH / 2, 0), text=look.letter, size=SMALL, anchor="center", on=task)
    return _item(look.words, bars=(bar,), labels=(letter,), room=SWATCH)


def _idle() -> Drawing:
    bar = Bar(box=Box(x=0, y=-SWATCH / 2, width=SWATCH, height=SWATCH), task=None)
    return _item("idle GPU", bars=(bar,), labels=(), room=SWATCH)


def _flow(kind: FlowKind, ink: FlowKind | Task) -> Drawing:
    arrow = Arrow(
        points=((0, 0), (SWATCH + 12, 0)), ink=ink, has_two_heads=kind is FlowKind.GRADIENTS
    )
    return _item(FLOW_WORDS[kind], arrows=(arrow,), labels=(), room=SWATCH + 12)


def _note(text: str) -> Drawing:
    return _item(text, labels=(), room=-6)


def _item(
    words: str,
    *,
    room: float,
    labels: tuple[Label, ...],
    bars: tuple[Bar, ...] = (),
    arrows: tuple[Arrow, ...] = (),
) -> Drawing:
    text = Label(at=(room + 6, 0), text=words, size=SMALL, ink=Tone.QUIET)
    width = room + 6 + text_width(words, SMALL)
    return Drawing(width=width, height=LINE, bars=bars, arrows=arrows, labels=(*labels, text))


def _notes(cards: Sequence[Card]) -> list[str]:
    duties = [duty for card in cards for cell in card.cells for duty in cell.duties]
    found = []
    if duties:
        letter = LOOKS[duties[0].task].letter
        found.append(f"{letter}0, {letter}1, …: replicas")
    if any(duty.split.num_stages > 1 for duty in duties):
        found.append("S0, S1, …: pipeline stages and their layers")
    if any(duty.split.tensor > 1 for duty in duties):
        found.append("tp: tensor-parallel group")
    if any(len(card.machines) > 1 and card.tasks and not card.is_tally for card in cards):
        found.append(f"{TIMES}n beside a machine: n alike, the first one drawn")
    return found


def _has_idle(card: Card) -> bool:
    return any(not cell.tasks for cell in card.cells)
