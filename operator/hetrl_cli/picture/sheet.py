"""The whole sheet: title, regions side by side, what crosses between them, legend."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hetrl_cli.picture.cards import LOOKS, Card, cards
from hetrl_cli.picture.flows import FLOW_COLOURS, FlowKind, RegionFlow, flows, hops
from hetrl_cli.picture.region import region
from hetrl_cli.picture.shapes import (
    BODY,
    HEADING,
    INK,
    QUIET,
    SMALL,
    TIMES,
    TITLE,
    Arrow,
    Bar,
    Box,
    Drawing,
    Label,
    Panel,
    PanelKind,
    shortened,
    text_width,
    together,
    wrapped,
)
from hetrl_cli.tables.plan import duration, rate
from hetrl_core.fleet.snapshot import ClusterSnapshot, Link
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan
from hetrl_core.task import Task

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


def sheet(plan: Plan, snapshot: ClusterSnapshot, job: JobSpec) -> Drawing:
    """Lay a plan out on one sheet. Equal questions give equal drawings.

    Raises:
        ValueError: the plan is for another fleet.
    """
    all_cards = cards(plan, snapshot)
    all_hops = hops(plan, all_cards)
    moving = flows(plan, snapshot, job, cards=all_cards, hops=all_hops)
    used = tuple(dict.fromkeys(card.region for card in all_cards if card.tasks))
    row = [
        region(
            name,
            f"{_words(snapshot.link(name, name))} between machines",
            cards=all_cards,
            hops=all_hops,
            flows=[flow for flow in moving if flow.source == name == flow.target],
            plan=plan,
        )
        for name in used
    ]
    rest = [card for card in all_cards if card.region not in used]
    row += [_unused_regions(rest)] if rest else []
    room = max(
        MIN_WIDTH - 2 * MARGIN, sum(part.width for part in row) + REGION_GAP * (len(row) - 1)
    )
    top = _title(plan, snapshot, job, width=room)
    regions = _side_by_side(row, y=MARGIN + top.height)
    boxes = {name: regions.boxes[name] for name in used}
    below = _crossings(tuple(_lines(moving, used, snapshot)), boxes)
    bottom = max(below.height, regions.height) + LEGEND_GAP
    colours = {flow.kind: flow.colour for flow in moving}
    if all_hops:
        colours[FlowKind.PIPELINE] = LOOKS[all_hops[0].task].odd_fill
    legend = _legend(all_cards, colours, width=room)
    return together(
        [top.moved(MARGIN, MARGIN), regions, below, legend.moved(MARGIN, bottom)],
        width=room + 2 * MARGIN,
        height=bottom + legend.height + MARGIN,
    )


def _side_by_side(row: Sequence[Drawing], *, y: float) -> Drawing:
    parts, x = [], MARGIN
    for part in row:
        parts.append(part.moved(x, y))
        x += part.width + REGION_GAP
    return together(parts, height=y + max(part.height for part in row))


def _words(link: Link) -> str:
    return f"{8 * link.bytes_per_second / 1e9:.3g} Gbit/s, {1e3 * link.latency_seconds:.3g} ms"


def _title(plan: Plan, snapshot: ClusterSnapshot, job: JobSpec, *, width: float) -> Drawing:
    """Draw step time, price, staleness, gap to the bound, and bottleneck in lines of a width."""
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
    name = shortened(head, TITLE, room=width, is_bold=True)
    labels = [Label(x=0, y=TITLE_LINE / 2, text=name, size=TITLE, is_bold=True)]
    y = TITLE_HEIGHT
    for text, size, colour in (
        (figures, HEADING, INK),
        (f"binds: {expected.bottleneck}", BODY, QUIET),
    ):
        for line in wrapped(text, size, room=width):
            labels.append(Label(x=0, y=y, text=line, size=size, colour=colour))
            y += TITLE_LINE
    return Drawing(width=width, height=y + TITLE_LINE / 4, shapes=tuple(labels))


def _unused_regions(cards: Sequence[Card]) -> Drawing:
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
    x, y = UNUSED_PADDING, UNUSED_HEADER / 2
    head = f"Not used: {total:,} GPUs"
    labels = [Label(x=x, y=y, text=head, size=HEADING, is_bold=True, colour=QUIET)]
    y = UNUSED_HEADER
    for text in said:
        for line in wrapped(text, SMALL, room=UNUSED_WIDTH - 2 * UNUSED_PADDING):
            labels.append(Label(x=x, y=y + UNUSED_LINE / 2, text=line, colour=QUIET))
            y += UNUSED_LINE
    width, height = UNUSED_WIDTH, y + UNUSED_PADDING
    frame = Panel(x=0, y=0, width=width, height=height, kind=PanelKind.UNUSED)
    return Drawing(width=width, height=height, shapes=(frame, *labels))


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


def _crossings(lines: Sequence[_Line], boxes: Mapping[str, Box]) -> Drawing:
    """Draw lines below the regions' boxes, in their coordinates.

    They nest like brackets, so that the two ends of one never cross its own link's others.
    """
    y = max(box.bottom for box in boxes.values())
    if not lines:
        return Drawing(height=y)
    y += FIRST_CROSSING - LINK_GAP
    ports = _Ports(lines, boxes)
    shapes: list[Arrow | Label] = []
    for line in lines:
        flow = line.flow
        y += 0 if flow else LINK_GAP
        x, other_x = ports.next(line.left, is_left=True), ports.next(line.right, is_left=False)
        points = (
            (x, boxes[line.left].bottom),
            (x, y),
            (other_x, y),
            (other_x, boxes[line.right].bottom),
        )
        goes_right = flow is None or flow.source == line.left
        shapes += [
            Arrow(
                points=points if goes_right else points[::-1],
                colour=flow.colour if flow else None,
                has_two_heads=flow is not None and flow.is_mutual,
            ),
            Label(
                x=(x + other_x) / 2,
                y=y,
                text=line.text,
                anchor="center",
                colour=FLOW_COLOURS[flow.kind] if flow else INK,
                has_paper=True,
                is_bold=flow is None,
            ),
        ]
        y += CROSSING
    return Drawing(height=y + LINK_GAP, shapes=tuple(shapes))


class _Ports:
    """Points where lines leave a region's lower edge, in the half that faces the other end.

    Those of the first lines are so far apart that the words on a line fit between them.
    """

    def __init__(self, lines: Sequence[_Line], boxes: Mapping[str, Box]) -> None:
        self._boxes = boxes
        self._half_text = max(text_width(line.text, SMALL, is_bold=True) for line in lines) / 2
        self._counts = Counter(
            end for line in lines for end in ((line.left, True), (line.right, False))
        )
        self._used: Counter[tuple[str, bool]] = Counter()

    def next(self, region: str, *, is_left: bool) -> float:
        """Return the x of the next port of a region that is at the left end of its line or not."""
        box, count, number = (
            self._boxes[region],
            self._counts[region, is_left],
            self._used[region, is_left],
        )
        self._used[region, is_left] += 1
        half = box.width / 2 - 8
        first = max(PORT, min(self._half_text, half - count * NARROWEST_PORT))
        inwards = first + number * min(PORT, (half - first) / count)
        return box.right - inwards if is_left else box.x + inwards


def _legend(cards: Sequence[Card], colours: Mapping[FlowKind, str], *, width: float) -> Drawing:
    """Draw the meaning of the colours, letters and lines that are on the sheet, in lines."""
    tasks = {task for card in cards for task in card.tasks}
    has_idle = any(card.tasks and not all(cell.tasks for cell in card.cells) for card in cards)
    items = [
        *(_swatch(task, LOOKS[task].words) for task in LOOKS if task in tasks),
        *([_swatch(None, "idle GPU")] if has_idle else []),
        *(_flow(kind, colours[kind]) for kind in FlowKind if kind in colours),
        *(_item(text, room=-6) for text in _notes(cards)),
    ]
    parts, x, y = [], 0.0, LEGEND_LINE / 2
    for item in items:
        if x and x + item.width > width:
            x, y = 0.0, y + LEGEND_LINE
        parts.append(item.moved(x, y))
        x += item.width + ITEM_GAP
    return together(parts, width=width, height=y + LEGEND_LINE / 2)


def _swatch(task: Task | None, words: str) -> Drawing:
    bar = Bar(x=0, y=-SWATCH / 2, width=SWATCH, height=SWATCH, task=task)
    if task is None:
        return _item(words, bar, room=SWATCH)
    look = LOOKS[task]
    letter = Label(x=SWATCH / 2, y=0, text=look.letter, anchor="center", colour=look.text)
    return _item(words, bar, letter, room=SWATCH)


def _flow(kind: FlowKind, colour: str) -> Drawing:
    is_mutual = kind is FlowKind.GRADIENTS
    arrow = Arrow(points=((0, 0), (ARROW, 0)), colour=colour, has_two_heads=is_mutual)
    return _item(FLOW_WORDS[kind], arrow, room=ARROW)


def _item(words: str, *shapes: Bar | Arrow | Label, room: float) -> Drawing:
    text = Label(x=room + 6, y=0, text=words, colour=QUIET)
    return Drawing(width=room + 6 + text_width(words, SMALL), shapes=(*shapes, text))


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
