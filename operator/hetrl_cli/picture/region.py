"""One region: rollouts at the left, all others at the right, what flows between them, the rest."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hetrl_cli.picture.canvas import (
    BODY,
    HEADING,
    QUIET,
    SMALL,
    TIMES,
    Box,
    Canvas,
    Layer,
    shortened,
    text_width,
    wrapped,
)
from hetrl_cli.picture.cards import LOOKS, Card
from hetrl_cli.picture.flows import FLOW_COLOURS, FlowKind, Hop, RegionFlow
from hetrl_cli.picture.machines import NumberedCard, Side, Stacks
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


def draw_region(
    canvas: Canvas,
    name: str,
    link: str,
    *,
    x: float,
    cards: Sequence[Card],
    hops: Sequence[Hop],
    flows: Sequence[RegionFlow],
    plan: Plan,
) -> Box:
    """Draw a region with its upper edge at 0; ``flows`` are those that stay inside."""
    rollouts, others = _columns(name, cards, hops)
    between = [flow for flow in flows if rollouts and others and not flow.stays]
    inside = [flow for flow in flows if flow not in between]
    right, bottom = x + PADDING, HEADER
    if rollouts:
        box = _draw_column(canvas, right, plan, rollouts, hops, notes=(), tracks_on="left")
        right, bottom = box.right, box.bottom
    if rollouts and others:
        right = _draw_between(canvas, between, right)
    if others:
        box = _draw_column(canvas, right, plan, others, hops, notes=inside, tracks_on="right")
        right, bottom = box.right, max(bottom, box.bottom)
    width = max(right + PADDING, _draw_name(canvas, x, name, link)) - x
    unused = [card for card in cards if card.region == name and not card.tasks]
    if unused:
        top = Box(x + PADDING, bottom + REST_GAP, width - 2 * PADDING, CHIP_HEIGHT)
        bottom = _draw_unused(canvas, unused, top)
    region = Box(x, 0, width, bottom + PADDING)
    canvas.panel(region, Layer.REGION)
    return region


def _columns(
    region: str, cards: Sequence[Card], hops: Sequence[Hop]
) -> tuple[list[NumberedCard], list[NumberedCard]]:
    """Return the used cards of a region: those drawn at the left, and those at the right."""
    here = ((number, card) for number, card in enumerate(cards) if card.region == region)
    used = sorted((pair for pair in here if pair[1].tasks), key=_along_pipelines)
    apart = _rollouts_apart(used, hops)
    left = [pair for pair in used if pair[0] in apart]
    return left, [pair for pair in used if pair[0] not in apart]


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


def _draw_name(canvas: Canvas, x: float, name: str, link: str) -> float:
    """Write a region's name and its link; return where they end."""
    x, y = x + PADDING, HEADER / 2
    said = shortened(name, HEADING, room=NAME_ROOM, is_bold=True)
    canvas.text(x, y, said, size=HEADING, is_bold=True)
    x += text_width(said, HEADING, is_bold=True) + 10
    canvas.text(x, y, link, colour=QUIET)
    return x + text_width(link, SMALL) + PADDING


def _draw_column(
    canvas: Canvas,
    x: float,
    plan: Plan,
    cards: Sequence[NumberedCard],
    hops: Sequence[Hop],
    *,
    notes: Sequence[RegionFlow],
    tracks_on: Side,
) -> Box:
    """Draw machines that do the same part of the work under a heading."""
    stacks = Stacks(cards, hops, tracks_on=tracks_on)
    title = _title(cards)
    room = max(stacks.width, text_width(title, HEADING, is_bold=True))
    lines = [
        *((line, QUIET) for line in _splits(plan, cards)),
        *((f"↻ {flow.kind}: {flow.amount}", FLOW_COLOURS[flow.kind]) for flow in notes),
    ]
    left, y = x + SIDE_PADDING, HEADER + SIDE_PADDING
    canvas.text(left, y + 6, title, size=HEADING, is_bold=True)
    y += TITLE_HEIGHT
    for text, colour in lines:
        for line in wrapped(text, SMALL, room=room):
            canvas.text(left, y, line, colour=colour)
            y += LINE
    bottom = stacks.draw(canvas, left, y) + SIDE_PADDING
    side = Box(x, HEADER, room + 2 * SIDE_PADDING, bottom - HEADER)
    canvas.panel(side, Layer.SIDE)
    return side


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


def _draw_between(canvas: Canvas, flows: Sequence[RegionFlow], left: float) -> float:
    """Draw flows between the columns, trajectories to the right, weights to the left.

    Returns:
        The x of the column at the right.
    """
    words = [text_width(word, SMALL) for flow in flows for word in flow.amount.split(", ")]
    kinds = [text_width(flow.kind, BODY, is_bold=True) for flow in flows]
    right = left + max([*words, *kinds, 40.0]) + 2 * MARGIN
    x, y = (left + right) / 2, HEADER + 22
    for flow in flows:
        colour = FLOW_COLOURS[flow.kind]
        canvas.text(x, y, flow.kind, size=BODY, anchor="center", colour=colour, is_bold=True)
        for word in flow.amount.split(", "):
            y += LINE
            canvas.text(x, y, word, anchor="center")
        y += LINE - 2
        ends = ((left + 2, y), (right - 2, y))
        goes_right = flow.kind is FlowKind.TRAJECTORIES
        canvas.line(ends if goes_right else ends[::-1], colour)
        y += 24
    return right


def _draw_unused(canvas: Canvas, cards: Sequence[Card], strip: Box) -> float:
    """Draw machines that the plan does not use, a strip for those that are alike.

    Returns:
        The y below the last.
    """
    for card in cards:
        canvas.panel(strip, Layer.UNUSED)
        many = "1 machine" if len(card.machines) == 1 else f"{len(card.machines):,} machines"
        said = f"not used: {many} of {card.gpus_per_machine} {TIMES} {card.gpu_kind}"
        text = shortened(said, SMALL, room=strip.width - 16)
        canvas.text(strip.x + 8, strip.y + strip.height / 2, text, colour=QUIET)
        strip = replace(strip, y=strip.bottom + CHIP_GAP)
    return strip.y
