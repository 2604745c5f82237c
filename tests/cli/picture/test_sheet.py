"""The layout of whole sheets, held to what makes a picture legible."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from hetrl_cli.picture.canvas import POINTS_PER_PIXEL, Box, Canvas, Layer, text_width
from hetrl_cli.picture.cards import LOOKS
from hetrl_cli.picture.sheet import sheet
from hetrl_core.task import Task
from tests.cli.picture.plans import (
    CASES,
    GENERATE,
    TRAIN,
    VALUES,
    Case,
    pipelines,
    shared,
    ten_thousand,
    two_regions,
)

TASKS = {fill: task for task, look in LOOKS.items() for fill in (look.fill, look.odd_fill)}
PANELS = (Layer.REGION, Layer.SIDE, Layer.MACHINE, Layer.UNUSED)


@dataclass(frozen=True, slots=True)
class Label:
    """A line of text as it is drawn."""

    text: str
    box: Box
    has_paper: bool


@pytest.fixture(params=CASES, scope="module")
def canvas(request: pytest.FixtureRequest) -> Canvas:
    return drawn(request.param)


@cache
def drawn(make: Callable[[], Case]) -> Canvas:
    case = make()
    return sheet(case.plan, case.fleet, case.job)


def paper(canvas: Canvas) -> Box:
    (axes,) = canvas.figure.axes
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    return Box(left, top, right - left, bottom - top)


def boxes(canvas: Canvas, layer: Layer) -> list[Box]:
    return [box for box, _ in rectangles(canvas, layer)]


def bars(canvas: Canvas) -> list[tuple[Task | None, Box]]:
    """Every bar with its task; an idle GPU's has none."""
    return [(TASKS.get(fill), box) for box, fill in rectangles(canvas, Layer.BAR)]


def rectangles(canvas: Canvas, layer: Layer) -> list[tuple[Box, str]]:
    """Every rectangle of a layer with its colour."""
    return [
        (
            Box(each.get_x(), each.get_y(), each.get_width(), each.get_height()),
            to_hex(each.get_fc()),
        )
        for each in canvas.figure.axes[0].patches
        if isinstance(each, FancyBboxPatch) and each.get_zorder() == layer
    ]


def lines(canvas: Canvas) -> list[list[tuple[float, float]]]:
    patches = canvas.figure.axes[0].patches
    arrows = [each for each in patches if isinstance(each, FancyArrowPatch)]
    return [[(x, y) for x, y in each._path_original.vertices] for each in arrows]


def labels(canvas: Canvas) -> list[Label]:
    found = []
    for each in canvas.figure.axes[0].texts:
        size, is_bold = each.get_fontsize() / POINTS_PER_PIXEL, each.get_fontweight() == "bold"
        width = text_width(each.get_text(), size, is_bold=is_bold)
        left = {"left": 0.0, "center": width / 2, "right": width}[each.get_ha()]
        x, y = each.get_position()
        box = Box(x - left, y - size / 2, width, size)
        found.append(Label(each.get_text(), box, has_paper=each.get_bbox_patch() is not None))
    return found


def overlap(one: Box, other: Box) -> bool:
    return (
        one.x < other.right
        and other.x < one.right
        and one.y < other.bottom
        and other.y < one.bottom
    )


def contains(outer: Box, inner: Box) -> bool:
    return (
        outer.x <= inner.x
        and inner.right <= outer.right
        and outer.y <= inner.y
        and inner.bottom <= outer.bottom
    )


def pairs(found: Sequence[Box]) -> Iterator[tuple[Box, Box]]:
    return combinations(found, 2)


def test_sheet_contains_everything_drawn(canvas: Canvas) -> None:
    whole = paper(canvas)
    for layer in PANELS:
        assert all(contains(whole, panel) for panel in boxes(canvas, layer))
    for label in labels(canvas):
        assert contains(whole, label.box), label
    for line in lines(canvas):
        for x, y in line:
            assert contains(whole, Box(x, y, 0, 0)), line


@pytest.mark.parametrize("layer", PANELS)
def test_panels_of_a_kind_lie_apart(canvas: Canvas, layer: Layer) -> None:
    assert not [pair for pair in pairs(boxes(canvas, layer)) if overlap(*pair)]


def test_sides_are_in_regions_and_machines_on_sides(canvas: Canvas) -> None:
    regions, sides = boxes(canvas, Layer.REGION), boxes(canvas, Layer.SIDE)
    assert all(any(contains(region, side) for region in regions) for side in sides)
    machines = boxes(canvas, Layer.MACHINE)
    assert machines
    assert all(any(contains(side, machine) for side in sides) for machine in machines)


def test_words_do_not_overlap(canvas: Canvas) -> None:
    overlapping = [
        (one.text, other.text)
        for one, other in combinations(labels(canvas), 2)
        if overlap(one.box, other.box)
    ]
    assert not overlapping


def test_bars_lie_apart_and_hold_what_is_written_on_them(canvas: Canvas) -> None:
    drawn_bars = boxes(canvas, Layer.BAR)
    assert not [pair for pair in pairs(drawn_bars) if overlap(*pair)]
    written = [
        (bar, label) for bar in drawn_bars for label in labels(canvas) if overlap(bar, label.box)
    ]
    assert written
    for bar, label in written:
        assert contains(bar, label.box), label


def test_lines_do_not_cross_words(canvas: Canvas) -> None:
    bare = [label for label in labels(canvas) if not label.has_paper]
    for line in lines(canvas):
        for (x, y), (other_x, other_y) in pairwise(line):
            box = Box(min(x, other_x), min(y, other_y), abs(x - other_x), abs(y - other_y))
            assert not [label for label in bare if overlap(box, label.box)], line


def test_tasks_on_one_gpu_get_a_part_each() -> None:
    drawn_bars = bars(drawn(shared))
    whole = max(box.height for _, box in drawn_bars)
    parts = Counter((task, box.height < whole) for task, box in drawn_bars)

    legend = {(task, True): 1 for task in (TRAIN, GENERATE, VALUES, None)}
    assert parts - Counter(legend) == {
        (TRAIN, True): 4,
        (GENERATE, True): 1,
        (TRAIN, False): 2,
        (VALUES, False): 1,
        (None, False): 1,
    }


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(
            pipelines,
            {
                "math: a step of 6.24 s on 64 of 72 GPUs",
                "80.00 samples/s · 123.20 $/h · staleness 1.90 of at most 2 · "
                "gap to the bound 12.0 %",
                "binds: generation: HBM bandwidth of the A100-40GBs",
                "us-east",
                "Rollouts",
                "Trainer",
                "trajectories",
                "80.00 samples/s",
                "weights",
                "T S3: 9 layers",
                "T7",
                "S5",
                "tp4",
                "not used: 1 machine of 8 \N{MULTIPLICATION SIGN} L4",
            },
            id="one region",
        ),
        pytest.param(
            two_regions,
            {
                "Virginia to Ohio: 5 Gbit/s, 5 ms",
                "trajectories: 16.00 samples/s",
                "Trainer, rollouts",
                "Not used: 8 GPUs",
                "Tokyo: 8 L4",
            },
            id="two regions",
        ),
        pytest.param(
            ten_thousand,
            {
                "math: a step of 6.24 s on 10,240 of 10,240 GPUs",
                "l4-[000-319]",
                "\N{MULTIPLICATION SIGN}320",
                "S0 tp4",
            },
            id="10,240 GPUs",
        ),
    ],
)
def test_sheet_says_what_the_plan_is(make: Callable[[], Case], expected: set[str]) -> None:
    assert expected <= {label.text for label in labels(drawn(make))}


def test_ten_thousand_gpus_fit_on_a_slide() -> None:
    whole = paper(drawn(ten_thousand))
    assert whole.width <= 1600
    assert whole.height <= 900


def test_plan_is_always_drawn_in_the_same_bytes() -> None:
    first, second = (
        sheet(case.plan, case.fleet, case.job).to_bytes("svg")
        for case in (two_regions(), two_regions())
    )
    assert first == second
    assert b"<dc:date>" not in first


def test_png_is_a_png() -> None:
    assert drawn(shared).to_bytes("png").startswith(b"\x89PNG")
