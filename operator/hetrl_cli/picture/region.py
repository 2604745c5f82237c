"""One region: rollouts at the left, all others at the right, what flows between them, the rest."""

from collections import Counter
from collections.abc import Sequence

from hetrl_cli.picture.cards import LOOKS, Card
from hetrl_cli.picture.flows import FLOW_COLOURS, FlowKind, Hop, RegionFlow
from hetrl_cli.picture.machines import NumberedCard, Side, stacks
from hetrl_cli.picture.shapes import (
    BODY,
    HEADING,
    QUIET,
    SMALL,
    TIMES,
    Arrow,
    Drawing,
    Label,
    Panel,
    PanelKind,
    shortened,
    text_width,
    together,
    wrapped,
)
from hetrl_core.plan.plan import Plan
from hetrl_core.task import Task

PADDING, HEADER = 14.0, 36.0
SIDE_PADDING, TITLE_HEIGHT = 12.0, 24.0
MARGIN = 16.0
"""Between a flow's words and the columns at its sides."""

NAME_ROOM = 240.0
LINE = 15.0
REST_GAP = 8.0
CHIP_HEIGHT, CHIP_GAP = 24.0, 6.0


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
    here = [(number, card) for number, card in enumerate(cards) if card.region == name]
    used = sorted((pair for pair in here if pair[1].tasks), key=_along_pipelines)
    apart = _rollouts_apart(used, hops)
    rollouts = [pair for pair in used if pair[0] in apart]
    others = [pair for pair in used if pair[0] not in apart]
    between = [flow for flow in flows if rollouts and others and not flow.stays]
    inside = [flow for flow in flows if flow not in between]
    head = _name(name, link)
    columns = []
    if rollouts:
        columns.append(_column(plan, rollouts, hops, notes=(), tracks_on="left"))
    if others:
        columns.append(_column(plan, others, hops, notes=inside, tracks_on="right"))
    gap = _gap(between) if len(columns) > 1 else 0.0
    parts, x = [], PADDING
    for column in columns:
        parts.append(column.moved(x, HEADER))
        x += column.width + gap
    if len(columns) > 1:
        parts.append(_between(between, left=PADDING + columns[0].width, gap=gap))
    width = max(x - gap + PADDING, head.width)
    bottom = max((column.height for column in columns), default=0.0) + HEADER
    rest = _unused([card for _, card in here if not card.tasks], width - 2 * PADDING)
    height = bottom + (REST_GAP + rest.height if rest.shapes else 0) + PADDING
    frame = Panel(x=0, y=0, width=width, height=height, kind=PanelKind.REGION)
    return together(
        [
            Drawing(shapes=(frame,), boxes={name: frame}),
            head,
            *parts,
            rest.moved(PADDING, bottom + REST_GAP),
        ],
        width=width,
        height=height,
    )


def _along_pipelines(pair: NumberedCard) -> tuple[tuple[int, int, int], int]:
    """Order cards by their first stage of training, and by replicas where those are equal."""
    number, card = pair
    order = (Task.ACTOR_TRAINING, Task.CRITIC_TRAINING)
    places = [
        (order.index(duty.task) if duty.task in order else 2, duty.stage, duty.replica)
        for cell in card.cells
        for duty in cell.duties
    ]
    return min(places, default=(3, 0, 0)), number


def _rollouts_apart(used: Sequence[NumberedCard], hops: Sequence[Hop]) -> set[int]:
    """Return the cards that only generate; none if a hop connects one of them to another card.

    Its line would cross all that flows between the two columns.
    """
    apart = {number for number, card in used if card.generates_only}
    others = {number for number, _ in used} - apart
    ends = [{hop.source, hop.target} for hop in hops]
    return set() if any(pair & apart and pair & others for pair in ends) else apart


def _name(name: str, link: str) -> Drawing:
    said = shortened(name, HEADING, room=NAME_ROOM, is_bold=True)
    x = PADDING + text_width(said, HEADING, is_bold=True) + 10
    labels = (
        Label(x=PADDING, y=HEADER / 2, text=said, size=HEADING, is_bold=True),
        Label(x=x, y=HEADER / 2, text=link, colour=QUIET),
    )
    return Drawing(width=x + text_width(link, SMALL) + PADDING, shapes=labels)


def _column(
    plan: Plan,
    cards: Sequence[NumberedCard],
    hops: Sequence[Hop],
    *,
    notes: Sequence[RegionFlow],
    tracks_on: Side,
) -> Drawing:
    """Draw machines that do the same part of the work under a heading."""
    body = stacks(cards, hops, tracks_on=tracks_on)
    title = _title(cards)
    room = max(body.width, text_width(title, HEADING, is_bold=True))
    lines = [
        *((line, QUIET) for line in _splits(plan, cards)),
        *((f"↻ {flow.kind}: {flow.amount}", FLOW_COLOURS[flow.kind]) for flow in notes),
    ]
    top = SIDE_PADDING + TITLE_HEIGHT
    labels = [Label(x=SIDE_PADDING, y=SIDE_PADDING + 6, text=title, size=HEADING, is_bold=True)]
    for text, colour in lines:
        for line in wrapped(text, SMALL, room=room):
            labels.append(Label(x=SIDE_PADDING, y=top, text=line, colour=colour))
            top += LINE
    width, height = room + 2 * SIDE_PADDING, top + body.height + SIDE_PADDING
    frame = Panel(x=0, y=0, width=width, height=height, kind=PanelKind.SIDE)
    heading = Drawing(shapes=(frame, *labels))
    return together([heading, body.moved(SIDE_PADDING, top)], width=width, height=height)


def _title(cards: Sequence[NumberedCard]) -> str:
    """Name what machines are there for."""
    tasks = frozenset(task for _, card in cards for task in card.tasks)
    parts = {
        "trainer": {Task.ACTOR_TRAINING},
        "rollouts": {Task.ACTOR_GENERATION},
        "critic": {Task.CRITIC_TRAINING, Task.CRITIC_INFERENCE},
    }
    words = [word for word, of_word in parts.items() if tasks & of_word]
    return ", ".join(words or ["scoring"]).capitalize()


def _splits(plan: Plan, cards: Sequence[NumberedCard]) -> list[str]:
    """Say each task's replicas and splits on these machines: ``actor training: 8 x tp1·pp6``."""
    names = {name for _, card in cards for name in card.machines}
    lines = []
    for task in (task for task in LOOKS if any(task in card.tasks for _, card in cards)):
        counts: Counter[str] = Counter()
        for group in plan.groups_with(task):
            counts[str(group.parallelism)] += sum(
                any(share.machine in names for share in replica.shares)
                for replica in group.replicas
            )
        said = " + ".join(f"{number} {TIMES} {split}" for split, number in counts.items() if number)
        lines.append(f"{LOOKS[task].letter}  {LOOKS[task].words}: {said}")
    return lines


def _gap(flows: Sequence[RegionFlow]) -> float:
    words = [text_width(word, SMALL) for flow in flows for word in flow.amount.split(", ")]
    kinds = [text_width(flow.kind, BODY, is_bold=True) for flow in flows]
    return max([*words, *kinds, 40.0]) + 2 * MARGIN


def _between(flows: Sequence[RegionFlow], *, left: float, gap: float) -> Drawing:
    """Draw flows between the columns: trajectories to the right, weights to the left."""
    shapes: list[Arrow | Label] = []
    x, y = left + gap / 2, HEADER + 22
    for flow in flows:
        colour = FLOW_COLOURS[flow.kind]
        shapes.append(
            Label(x=x, y=y, text=flow.kind, size=BODY, anchor="center", colour=colour, is_bold=True)
        )
        for word in flow.amount.split(", "):
            y += LINE
            shapes.append(Label(x=x, y=y, text=word, anchor="center"))
        y += LINE - 2
        ends = ((left + 2, y), (left + gap - 2, y))
        goes_right = flow.kind is FlowKind.TRAJECTORIES
        shapes.append(Arrow(points=ends if goes_right else ends[::-1], colour=colour))
        y += 24
    return Drawing(shapes=tuple(shapes))


def _unused(cards: Sequence[Card], width: float) -> Drawing:
    """Draw machines that the plan does not use, a strip for those that are alike."""
    shapes: list[Panel | Label] = []
    for number, card in enumerate(cards):
        y = number * (CHIP_HEIGHT + CHIP_GAP)
        many = "1 machine" if len(card.machines) == 1 else f"{len(card.machines):,} machines"
        said = f"not used: {many} of {card.gpus_per_machine} {TIMES} {card.gpu_kind}"
        text = shortened(said, SMALL, room=width - 16)
        shapes += [
            Panel(x=0, y=y, width=width, height=CHIP_HEIGHT, kind=PanelKind.UNUSED),
            Label(x=8, y=y + CHIP_HEIGHT / 2, text=text, colour=QUIET),
        ]
    return Drawing(height=len(cards) * (CHIP_HEIGHT + CHIP_GAP), shapes=tuple(shapes))
