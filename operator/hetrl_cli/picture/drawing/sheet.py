"""The whole sheet: title, regions side by side, what crosses between them, legend."""

from collections.abc import Mapping, Sequence

from hetrl_cli.picture.content.cards import cards
from hetrl_cli.picture.content.flows import flows
from hetrl_cli.picture.content.hops import hops
from hetrl_cli.picture.content.movement import FlowKind, Hop, RegionFlow
from hetrl_cli.picture.drawing.crossings import crossings, draw_crossings
from hetrl_cli.picture.drawing.legend import legend
from hetrl_cli.picture.drawing.region import region
from hetrl_cli.picture.drawing.shapes import Drawing, together
from hetrl_cli.picture.drawing.title import title
from hetrl_cli.picture.drawing.unused import unused_regions
from hetrl_core.fleet.snapshot import ClusterSnapshot, Link
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan
from hetrl_core.task import Task

MARGIN = 24.0
REGION_GAP = 28.0
LEGEND_GAP = 18.0
MIN_WIDTH = 860.0
"""So narrow a sheet still holds the title."""


def sheet(plan: Plan, snapshot: ClusterSnapshot, job: JobSpec) -> Drawing:
    """Lay a plan out on one sheet. Equal questions give equal drawings.

    Raises:
        ValueError: the plan is for another fleet.
    """
    found = cards(plan, snapshot)
    ways = hops(plan, found)
    moving = flows(plan, snapshot, job, cards=found, hops=ways)
    used = tuple(dict.fromkeys(card.region for card in found if card.tasks))
    row = [
        region(
            name,
            f"{_words(snapshot.link(name, name))} between machines",
            cards=found,
            hops=ways,
            flows=[flow for flow in moving if flow.source == name == flow.target],
            plan=plan,
        )
        for name in used
    ]
    rest = unused_regions([card for card in found if card.region not in used])
    row += [rest] if rest else []
    whole = sum(part.width for part in row) + REGION_GAP * (len(row) - 1)
    room = max(MIN_WIDTH - 2 * MARGIN, whole)
    top = title(plan, snapshot, job, width=room).moved(MARGIN, MARGIN)
    placed = _side_by_side(row, y=MARGIN + top.height)
    boxes = {name: part.panels[0].box for name, part in zip(used, placed, strict=False)}
    links = {frozenset({a, b}): _words(snapshot.link(a, b)) for a in used for b in used if a != b}
    below = draw_crossings(crossings(moving, used, links), boxes)
    bottom = max(below.height, *(part.panels[0].box.bottom for part in placed)) + LEGEND_GAP
    key = legend(found, _inks(moving, ways), width=room)
    return together(
        [top, *placed, below, key.moved(MARGIN, bottom)],
        width=room + 2 * MARGIN,
        height=bottom + key.height + MARGIN,
    )


def _side_by_side(row: Sequence[Drawing], *, y: float) -> list[Drawing]:
    placed, x = [], MARGIN
    for part in row:
        placed.append(part.moved(x, y))
        x += part.width + REGION_GAP
    return placed


def _words(link: Link) -> str:
    return f"{8 * link.bytes_per_second / 1e9:.3g} Gbit/s, {1e3 * link.latency_seconds:.3g} ms"


def _inks(moving: Sequence[RegionFlow], ways: Sequence[Hop]) -> Mapping[FlowKind, FlowKind | Task]:
    inks: dict[FlowKind, FlowKind | Task] = {flow.kind: flow.task or flow.kind for flow in moving}
    return inks | ({FlowKind.PIPELINE: ways[0].task} if ways else {})
