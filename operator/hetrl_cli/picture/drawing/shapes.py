"""Elements of a drawing: boxes, bars, arrows and labels, each with its position.

Lengths are in pixels of 1/100 inch, x to the right and y down. Colours, fonts and line widths
are left to ``draw``: here a shape only says what it stands for.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, Self

from hetrl_cli.picture.content.movement import FlowKind
from hetrl_core.task import Task

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle, upright."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The x of its right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The y of its lower edge."""
        return self.y + self.height

    @property
    def center(self) -> Point:
        """Its middle."""
        return self.x + self.width / 2, self.y + self.height / 2

    def moved(self, dx: float, dy: float) -> "Box":
        """Return it elsewhere."""
        return replace(self, x=self.x + dx, y=self.y + dy)


class PanelKind(StrEnum):
    """What a panel frames."""

    REGION = "region"
    SIDE = "side"
    """Machines that do the same part of the work."""

    MACHINE = "machine"
    UNUSED = "unused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A frame around other shapes."""

    box: Box
    kind: PanelKind
    is_stack: bool = False
    """Stands for several machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """GPUs that do one task together, or one idle GPU."""

    box: Box
    task: Task | None
    is_odd: bool = False
    """Every other replica is a shade darker, to distinguish neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """A way from the first point to the last."""

    points: tuple[Point, ...]
    ink: FlowKind | Task | None
    """What flows; ``None`` is a link, without a head."""

    has_two_heads: bool = False


Anchor = Literal["left", "center", "right"]


class Tone(StrEnum):
    """How loud a label is."""

    INK = "ink"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One line of text, vertically centred on its point."""

    at: Point
    text: str
    size: float
    anchor: Anchor = "left"
    ink: FlowKind | Tone = Tone.INK
    on: Task | None = None
    """The bar's task that it is written on, which decides whether it is light or dark."""

    is_bold: bool = False
    has_paper: bool = False
    """Hides lines that pass beneath it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Shapes on a sheet, from the back to the front."""

    width: float
    height: float
    panels: tuple[Panel, ...] = ()
    bars: tuple[Bar, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    labels: tuple[Label, ...] = ()

    def moved(self, dx: float, dy: float) -> Self:
        """Return its shapes elsewhere, on a sheet of the same size."""
        return replace(
            self,
            panels=tuple(replace(each, box=each.box.moved(dx, dy)) for each in self.panels),
            bars=tuple(replace(each, box=each.box.moved(dx, dy)) for each in self.bars),
            arrows=tuple(
                replace(each, points=tuple((x + dx, y + dy) for x, y in each.points))
                for each in self.arrows
            ),
            labels=tuple(
                replace(each, at=(each.at[0] + dx, each.at[1] + dy)) for each in self.labels
            ),
        )


def together(drawings: Iterable[Drawing], *, width: float, height: float) -> Drawing:
    """Return the shapes of several drawings on one sheet, the first one's at the back."""
    each = tuple(drawings)
    return Drawing(
        width=width,
        height=height,
        panels=tuple(panel for one in each for panel in one.panels),
        bars=tuple(bar for one in each for bar in one.bars),
        arrows=tuple(arrow for one in each for arrow in one.arrows),
        labels=tuple(label for one in each for label in one.labels),
    )
