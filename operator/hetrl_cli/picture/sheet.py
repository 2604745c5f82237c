"""The whole sheet: title, regions side by side, what crosses between them, legend."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hetrl_cli.picture.canvas import (
    BODY,
    HEADING,
    INK,
    QUIET,
    SMALL,
    TIMES,
    TITLE,
    Box,
    Canvas,
    Layer,
    shortened,
    text_width,
    wrapped,
)
from hetrl_cli.picture.cards import IDLE, LOOKS, Card, Look, cards
from hetrl_cli.picture.flows import FLOW_COLOURS, FlowKind, RegionFlow, flows, hops
from hetrl_cli.picture.region import draw_region
from hetrl_cli.tables.plan import duration, rate
from hetrl_core.fleet.snapshot import ClusterSnapshot, Link
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan

MARGIN, REGION_GAP, LEGEND_GAP = 24.0, 28.0, 18.0
MIN_WIDTH = 860.0
"""So narrow a sheet still holds the title."""

TITLE_HEIGHT, TITLE_LINE = 38.0, 20.0

UNUSED_WIDTH, UNUSED_PADDING, UNUSED_HEADER, UNUSED_LINE = 250.0, 14.0, 36.0, 16.0
MAX_UNUSED = 12
"""Unused regions that are named; of the others only the number is said."""

FIRST_CROSSING, CROSSING, LINK_GAP = 30.0, 26.0, 8.0
PORT, NARROWEST_PORT = 14.0, 6.0

LEGEND_LINE, SWATCH, ARROW, ITEM_GAP = 24.0, 20.0, 32.0, 26.0
FLOW_WORDS = {
    FlowKind.TRAJECTORIES: "trajectories",
    FlowKind.WEIGHTS: "new weights",
    FlowKind.PIPELINE: f"activations to the next stage, {TIMES}n replicas",
    FlowKind.GRADIENTS: "gradients, summed over replicas",
}


def sheet(plan: Plan, snapshot: ClusterSnapshot, job: JobSpec) -> Canvas:
    """Draw a plan on one sheet. Equal plans give equal sheets.

    Raises:
        ValueError: the plan is for another fleet.
    """
    canvas = Canvas()
    all_cards = cards(plan, snapshot)
    all_hops = hops(plan, all_cards)
    moving = flows(plan, snapshot, job, cards=all_cards, hops=all_hops)
    used = tuple(dict.fromkeys(card.region for card in all_cards if card.tasks))
    boxes: dict[str, Box] = {}
    x = 0.0
    for name in used:
        boxes[name] = draw_region(
            canvas,
            name,
            f"{_words(snapshot.link(name, name))} between machines",
            x=x,
            cards=all_cards,
            hops=all_hops,
            flows=[flow for flow in moving if flow.source == name == flow.target],
            plan=plan,
        )
        x = boxes[name].right + REGION_GAP
    bottom = _draw_crossings(canvas, tuple(_lines(moving, used, snapshot)), boxes)
    if rest := [card for card in all_cards if card.region not in used]:
        box = _draw_unused_regions(canvas, rest, x)
        x, bottom = box.right + REGION_GAP, max(bottom, box.bottom)
    width = max(MIN_WIDTH - 2 * MARGIN, x - REGION_GAP)
    top = _draw_title(canvas, plan, snapshot, job, width=width)
    colours = {flow.kind: flow.colour for flow in moving}
    if all_hops:
        colours[FlowKind.PIPELINE] = LOOKS[all_hops[0].task].odd_fill
    bottom = _draw_legend(canvas, all_cards, colours, y=bottom + LEGEND_GAP, width=width)
    height = bottom - top + 2 * MARGIN
    canvas.crop(Box(-MARGIN, top - MARGIN, width + 2 * MARGIN, height))
    return canvas


def _words(link: Link) -> str:
    return f"{8 * link.bytes_per_second / 1e9:.3g} Gbit/s, {1e3 * link.latency_seconds:.3g} ms"


def _draw_title(
    canvas: Canvas, plan: Plan, snapshot: ClusterSnapshot, job: JobSpec, *, width: float
) -> float:
    """Draw step time, price, staleness, gap to the bound, and bottleneck in lines of a width.

    Returns:
        The y of the upper edge: the title stands above the regions, which begin at 0.
    """
    expected = plan.prediction
    head = (
        f"{job.name}: a step of {duration(expected.step_seconds)} "
        f"on {plan.num_gpus:,} of {snapshot.num_gpus:,} GPUs"
    )
    gap = "not known" if plan.gap is None else f"{100 * plan.gap:.1f} %"
    figures = (
        f"{rate(expected.samples_per_second)} samples/s · "
        f"{expected.dollars_per_hour:,.2f} $/h · "
        f"staleness {expected.mean_staleness:.2f} of at most {job.algorithm.max_staleness} · "
        f"gap to the bound {gap}"
    )
    lines = [
        *((line, HEADING, INK) for line in wrapped(figures, HEADING, room=width)),
        *(
            (line, BODY, QUIET)
            for line in wrapped(f"binds: {expected.bottleneck}", BODY, room=width)
        ),
    ]
    top = -(TITLE_HEIGHT + len(lines) * TITLE_LINE + TITLE_LINE / 4)
    name = shortened(head, TITLE, room=width, is_bold=True)
    canvas.text(0, top + TITLE_LINE / 2, name, size=TITLE, is_bold=True)
    for number, (text, size, colour) in enumerate(lines):
        canvas.text(0, top + TITLE_HEIGHT + number * TITLE_LINE, text, size=size, colour=colour)
    return top


def _draw_unused_regions(canvas: Canvas, cards: Sequence[Card], x: float) -> Box:
    """Draw regions of which the plan takes nothing as one box."""
    kinds: dict[str, list[str]] = defaultdict(list)
    total = 0
    for card in cards:
        num_gpus = len(card.machines) * card.gpus_per_machine
        kinds[card.region].append(f"{num_gpus:,} {card.gpu_kind}")
        total += num_gpus
    said = [f"{region}: {', '.join(of_region)}" for region, of_region in kinds.items()]
    if len(said) > MAX_UNUSED:
        said[MAX_UNUSED:] = [f"and {len(said) - MAX_UNUSED} more regions"]
    left, y = x + UNUSED_PADDING, UNUSED_HEADER
    head = f"Not used: {total:,} GPUs"
    canvas.text(left, y / 2, head, size=HEADING, is_bold=True, colour=QUIET)
    for text in said:
        for line in wrapped(text, SMALL, room=UNUSED_WIDTH - 2 * UNUSED_PADDING):
            canvas.text(left, y + UNUSED_LINE / 2, line, colour=QUIET)
            y += UNUSED_LINE
    box = Box(x, 0, UNUSED_WIDTH, y + UNUSED_PADDING)
    canvas.panel(box, Layer.UNUSED)
    return box


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line from region to region: a link, or a flow over it."""

    left: str
    right: str
    text: str
    flow: RegionFlow | None = None


def _lines(
    flows: Sequence[RegionFlow], order: Sequence[str], snapshot: ClusterSnapshot
) -> Iterator[_Line]:
    """Yield each link that carries something, and its flows; between neighbours first."""
    by_pair: dict[tuple[int, int], list[RegionFlow]] = defaultdict(list)
    for flow in flows:
        if flow.source != flow.target:
            first, last = sorted((order.index(flow.source), order.index(flow.target)))
            by_pair[last - first, first].append(flow)
    for distance, first in sorted(by_pair):
        left, right = order[first], order[first + distance]
        link = f"{left} to {right}: {_words(snapshot.link(right, left))}"
        yield _Line(left=left, right=right, text=link)
        for flow in by_pair[distance, first]:
            yield _Line(left=left, right=right, text=f"{flow.kind}: {flow.amount}", flow=flow)


def _draw_crossings(canvas: Canvas, lines: Sequence[_Line], boxes: Mapping[str, Box]) -> float:
    """Draw lines below the regions; return the y below the last.

    They nest like brackets, so that the two ends of one never cross its own link's others.
    """
    y = max(box.bottom for box in boxes.values())
    if not lines:
        return y
    y += FIRST_CROSSING - LINK_GAP
    for line, x, other_x in _ports(lines, boxes):
        flow = line.flow
        y += 0 if flow else LINK_GAP
        bottoms = boxes[line.left].bottom, boxes[line.right].bottom
        points = ((x, bottoms[0]), (x, y), (other_x, y), (other_x, bottoms[1]))
        goes_right = flow is None or flow.source == line.left
        canvas.line(
            points if goes_right else points[::-1],
            flow.colour if flow else None,
            has_two_heads=flow is not None and flow.is_mutual,
        )
        canvas.text(
            (x + other_x) / 2,
            y,
            line.text,
            anchor="center",
            colour=FLOW_COLOURS[flow.kind] if flow else INK,
            has_paper=True,
            is_bold=flow is None,
        )
        y += CROSSING
    return y + LINK_GAP


def _ports(
    lines: Sequence[_Line], boxes: Mapping[str, Box]
) -> Iterator[tuple[_Line, float, float]]:
    """Yield lines with the x of both ends, in the halves of the regions that face each other.

    Those of the first lines are so far apart that the words on a line fit between them.
    """
    half_text = max(text_width(line.text, SMALL, is_bold=True) for line in lines) / 2
    counts = {
        True: Counter(line.left for line in lines),
        False: Counter(line.right for line in lines),
    }
    used: Counter[tuple[str, bool]] = Counter()

    def inwards(region: str, *, is_left: bool) -> float:
        number, count = used[region, is_left], counts[is_left][region]
        used[region, is_left] += 1
        half = boxes[region].width / 2 - 8
        first = max(PORT, min(half_text, half - count * NARROWEST_PORT))
        return first + number * min(PORT, (half - first) / count)

    for line in lines:
        x = boxes[line.left].right - inwards(line.left, is_left=True)
        yield line, x, boxes[line.right].x + inwards(line.right, is_left=False)


def _draw_legend(
    canvas: Canvas,
    cards: Sequence[Card],
    colours: Mapping[FlowKind, str],
    *,
    y: float,
    width: float,
) -> float:
    """Draw the meaning of the colours, letters and lines on the sheet; return the y below it."""
    x, y = 0.0, y + LEGEND_LINE / 2
    for sign, room, words in _legend_items(cards, colours):
        item_width = room + text_width(words, SMALL)
        if x and x + item_width > width:
            x, y = 0.0, y + LEGEND_LINE
        if isinstance(sign, FlowKind):
            is_mutual = sign is FlowKind.GRADIENTS
            canvas.line(((x, y), (x + ARROW, y)), colours[sign], has_two_heads=is_mutual)
        elif sign:
            canvas.bar(Box(x, y - SWATCH / 2, SWATCH, SWATCH), sign.fill, sign.odd_fill)
            canvas.text(x + SWATCH / 2, y, sign.letter, anchor="center", colour=sign.text)
        canvas.text(x + room, y, words, colour=QUIET)
        x += item_width + ITEM_GAP
    return y + LEGEND_LINE / 2


def _legend_items(
    cards: Sequence[Card], colours: Mapping[FlowKind, str]
) -> list[tuple[Look | FlowKind | None, float, str]]:
    """Return each entry's sign, if it has one, with the width of the sign and the entry's text."""
    tasks = {task for card in cards for task in card.tasks}
    has_idle = any(card.tasks and not all(cell.tasks for cell in card.cells) for card in cards)
    return [
        *((look, SWATCH + 6, look.words) for task, look in LOOKS.items() if task in tasks),
        *([(IDLE, SWATCH + 6, IDLE.words)] if has_idle else []),
        *((kind, ARROW + 6, words) for kind, words in FLOW_WORDS.items() if kind in colours),
        *((None, 0.0, note) for note in _notes(cards)),
    ]


def _notes(cards: Sequence[Card]) -> list[str]:
    duties = [duty for card in cards for cell in card.cells for duty in cell.duties]
    notes = []
    if duties:
        letter = LOOKS[duties[0].task].letter
        notes.append(f"{letter}0, {letter}1, …: replicas")
    if any(duty.split.num_stages > 1 for duty in duties):
        notes.append("S0, S1, …: pipeline stages and their layers")
    if any(duty.split.tensor > 1 for duty in duties):
        notes.append("tp: tensor-parallel group")
    if any(len(card.machines) > 1 and card.tasks and not card.is_tally for card in cards):
        notes.append(f"{TIMES}n beside a machine: n alike, the first one drawn")
    return notes
