"""One row of GPUs: who works on them, as bars.

GPUs of one tensor-parallel group are one bar; where tasks share a GPU, each gets a lane of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, groupby

from hetrl_cli.picture.content.cards import Cell
from hetrl_cli.picture.content.duties import Duty
from hetrl_cli.picture.content.palette import LOOKS
from hetrl_cli.picture.drawing.lettering import BODY, SMALL, fitted
from hetrl_cli.picture.drawing.shapes import Bar, Box, Drawing, Label
from hetrl_core.task import Task

GAP = 3.0
LANE_GAP = 1.0
LINE = 14.0
TWO_LINES = 34.0
"""A bar of this height holds two lines of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Neighbours that do one task together."""

    first: int
    width: int
    task: Task
    is_odd: bool
    lines: tuple[str, ...]


def row(cells: Sequence[Cell], *, cell_width: float, height: float) -> Drawing:
    """Draw GPUs side by side, at the origin."""
    bars, labels = [], []
    lanes = _Lanes(len(cells))
    runs = sorted(_runs(cells), key=lambda run: (-run.width, list(LOOKS).index(run.task)))
    places = [(run, lanes.take(run)) for run in runs]
    for run, first in places:
        last = lanes.grow(run, first)
        lane = height / lanes.number
        below = LANE_GAP if last + 1 < lanes.number else 0
        box = Box(
            x=run.first * cell_width + GAP / 2,
            y=first * lane,
            width=run.width * cell_width - GAP,
            height=(last - first + 1) * lane - below,
        )
        bar = Bar(box=box, task=run.task, is_odd=run.is_odd)
        bars.append(bar)
        labels += _written(bar, run.lines)
    for number, cell in enumerate(cells):
        if not cell.tasks:
            x = number * cell_width + GAP / 2
            bar = Bar(box=Box(x=x, y=0, width=cell_width - GAP, height=height), task=None)
            bars.append(bar)
            labels += _written(bar, () if cell.is_one else (f"idle: {cell.num_gpus:,}",))
    width = len(cells) * cell_width
    return Drawing(width=width, height=height, bars=tuple(bars), labels=tuple(labels))


class _Lanes:
    """Which part of a shared GPU's height each task gets."""

    def __init__(self, width: int) -> None:
        self._taken: list[set[int]] = [set() for _ in range(width)]
        self.number = 1

    def take(self, run: _Run) -> int:
        """Take the first lane that is free on all GPUs of a run."""
        columns = self._taken[run.first : run.first + run.width]
        lane = next(lane for lane in count() if all(lane not in each for each in columns))
        for each in columns:
            each.add(lane)
        self.number = max(self.number, lane + 1)
        return lane

    def grow(self, run: _Run, lane: int) -> int:
        """Extend a run over the free lanes below it; return the last."""
        columns = self._taken[run.first : run.first + run.width]
        while lane + 1 < self.number and all(lane + 1 not in each for each in columns):
            lane += 1
            for each in columns:
                each.add(lane)
        return lane


def _runs(cells: Sequence[Cell]) -> Iterator[_Run]:
    for task in dict.fromkeys(task for cell in cells for task in cell.tasks):
        keys = [_key(column, cell, task) for column, cell in enumerate(cells)]
        for key, same in groupby(range(len(cells)), key=lambda column: keys[column]):
            if key is None:
                continue
            columns = list(same)
            yield _Run(
                first=columns[0],
                width=len(columns),
                task=task,
                is_odd=bool(key[0] % 2),
                lines=_words(cells[columns[0]], task, len(columns)),
            )


def _key(column: int, cell: Cell, task: Task) -> tuple[int, int] | None:
    """Return what makes neighbours one bar: the same stage of the same replica."""
    if task not in cell.tasks:
        return None
    duty = _duty(cell, task)
    return (duty.replica, duty.stage) if duty else (0, column)


def _duty(cell: Cell, task: Task) -> Duty | None:
    return next((duty for duty in cell.duties if duty.task is task), None)


def _words(cell: Cell, task: Task, width: int) -> tuple[str, ...]:
    letter = LOOKS[task].letter
    duty = _duty(cell, task)
    if duty is None:
        return (f"{letter}: {cell.num_gpus:,} GPUs",)
    stage = [f"S{duty.stage}"] if duty.split.num_stages > 1 else []
    tensor = [f"tp{duty.split.tensor}"] if duty.split.tensor > 1 and width > 1 else []
    return (f"{letter}{duty.replica}", *([" ".join(stage + tensor)] if stage + tensor else []))


def _written(bar: Bar, lines: Sequence[str]) -> list[Label]:
    """Write on a bar, in one line where two have no room."""
    said = lines if bar.box.height >= TWO_LINES else [" ".join(lines)] if lines else []
    x, y = bar.box.center
    top = y - LINE * (len(said) - 1) / 2
    return [
        Label(
            at=(x, top + number * LINE),
            text=line,
            anchor="center",
            on=bar.task,
            size=fitted(line, SMALL if number else BODY, room=bar.box.width - 4),
        )
        for number, line in enumerate(said)
    ]
