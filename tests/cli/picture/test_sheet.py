"""The layout of whole sheets, held to what makes a picture legible."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations, pairwise

import pytest

from hetrl_cli.picture.render import to_bytes
from hetrl_cli.picture.shapes import Arrow, Bar, Box, Drawing, Label, Panel, PanelKind, text_width
from hetrl_cli.picture.sheet import sheet
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


@pytest.fixture(params=CASES, scope="module")
def drawing(request: pytest.FixtureRequest) -> Drawing:
    return drawn(request.param)


@cache
def drawn(make: Callable[[], Case]) -> Drawing:
    case = make()
    return sheet(case.plan, case.fleet, case.job)


def extent(label: Label) -> Box:
    width = text_width(label.text, label.size, is_bold=label.is_bold)
    left = {"left": 0.0, "center": width / 2, "right": width}[label.anchor]
    return Box(x=label.x - left, y=label.y - label.size / 2, width=width, height=label.size)


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


def boxes(drawing: Drawing, kind: PanelKind) -> list[Panel]:
    return [panel for panel in drawing.only(Panel) if panel.kind is kind]


def pairs(found: Sequence[Box]) -> Iterator[tuple[Box, Box]]:
    return combinations(found, 2)


def test_nothing_leaves_the_sheet(drawing: Drawing) -> None:
    paper = Box(x=0, y=0, width=drawing.width, height=drawing.height)
    for panel in drawing.only(Panel):
        assert contains(paper, panel), panel
    for label in drawing.only(Label):
        assert contains(paper, extent(label)), label
    for arrow in drawing.only(Arrow):
        for x, y in arrow.points:
            assert 0 <= x <= drawing.width, arrow
            assert 0 <= y <= drawing.height, arrow


@pytest.mark.parametrize("kind", PanelKind)
def test_panels_of_a_kind_lie_apart(drawing: Drawing, kind: PanelKind) -> None:
    assert not [pair for pair in pairs(boxes(drawing, kind)) if overlap(*pair)]


def test_every_side_is_in_a_region_and_every_machine_on_a_side(drawing: Drawing) -> None:
    regions, sides = boxes(drawing, PanelKind.REGION), boxes(drawing, PanelKind.SIDE)
    assert all(any(contains(region, side) for region in regions) for side in sides)
    machines = boxes(drawing, PanelKind.MACHINE)
    assert machines
    assert all(any(contains(side, machine) for side in sides) for machine in machines)


def test_no_two_words_lie_on_each_other(drawing: Drawing) -> None:
    found = [(label, extent(label)) for label in drawing.only(Label)]
    overlapping = [
        (one[0].text, other[0].text)
        for one, other in combinations(found, 2)
        if overlap(one[1], other[1])
    ]
    assert not overlapping


def test_bars_lie_apart_and_hold_what_is_written_on_them(drawing: Drawing) -> None:
    bars = drawing.only(Bar)
    assert not [pair for pair in pairs(bars) if overlap(*pair)]
    written = [
        (bar, extent(label))
        for label in drawing.only(Label)
        for bar in bars
        if contains(bar, Box(x=label.x, y=label.y, width=0, height=0))
    ]
    assert written
    for bar, text in written:
        assert contains(bar, text), bar


def test_no_line_strikes_out_words(drawing: Drawing) -> None:
    bare = [extent(label) for label in drawing.only(Label) if not label.has_paper]
    for arrow in drawing.only(Arrow):
        for (x, y), (other_x, other_y) in pairwise(arrow.points):
            line = Box(
                x=min(x, other_x),
                y=min(y, other_y),
                width=abs(x - other_x),
                height=abs(y - other_y),
            )
            assert not [text for text in bare if overlap(line, text)], arrow


def test_tasks_that_share_a_gpu_get_a_part_of_it_each() -> None:
    drawing = drawn(shared)
    whole = max(bar.height for bar in drawing.only(Bar))
    parts = Counter((bar.task, bar.height < whole) for bar in drawing.only(Bar))

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
def test_the_sheet_says_what_the_plan_is(make: Callable[[], Case], expected: set[str]) -> None:
    assert expected <= {label.text for label in drawn(make).only(Label)}


def test_ten_thousand_gpus_fit_on_a_slide() -> None:
    drawing = drawn(ten_thousand)
    assert drawing.width <= 1600
    assert drawing.height <= 900


def test_the_same_plan_is_drawn_in_the_same_bytes() -> None:
    first, second = (
        to_bytes(sheet(case.plan, case.fleet, case.job), "svg")
        for case in (two_regions(), two_regions())
    )
    assert first == second
    assert b"<dc:date>" not in first


def test_a_png_is_a_png() -> None:
    assert to_bytes(drawn(shared), "png").startswith(b"\x89PNG")
