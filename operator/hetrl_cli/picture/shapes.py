"""Shapes of a drawing, each with its position and colour, and the room that text takes.

Lengths are in pixels of 1/100 inch, x to the right and y down.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Literal, Self, TypeVar

from hetrl_core.task import Task

INK, QUIET, LINE, PAPER = "#1f2328", "#5a636d", "#c4cad1", "#ffffff"
TIMES = "\N{MULTIPLICATION SIGN}"

TITLE, HEADING, BODY, SMALL, SMALLEST = 20.0, 13.0, 11.0, 10.0, 6.0
"""Sizes of text."""

BOLD = 1.2
"""How much wider a bold line is at most, of those with letters and digits."""

# DejaVu Sans, with which PNGs are drawn and which is wider than the fonts that a viewer of an SVG
# may put in its place: thousandths of the font's size, from the blank to the tilde.
_ADVANCES_TEXT = """
318 401 460 838 636 950 780 275 390 390 500 838 318 361 318 337 636 636 636 636 636 636 636
636 636 636 337 337 838 838 838 531 1000 684 686 698 770 632 575 775 752 295 295 656 557 863
748 787 603 787 695 635 611 732 684 989 685 611 685 390 337 390 838 500 500 613 635 550 635
615 352 635 634 278 278 579 278 974 634 612 635 635 411 521 392 634 592 818 592 592 525 636
337 636 838
"""
_ADVANCES = [int(each) for each in _ADVANCES_TEXT.split()]
_OTHER = 1000
"""Of characters beyond ASCII: none of those that we write is wider."""

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A shape at a point."""

    x: float
    y: float

    def moved(self, dx: float, dy: float) -> Self:
        """Return it elsewhere."""
        return replace(self, x=self.x + dx, y=self.y + dy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Box(Placed):
    """An upright rectangle; its point is the upper left corner."""

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


class PanelKind(StrEnum):
    """What a panel frames."""

    REGION = "region"
    SIDE = "side"
    """Machines that do the same part of the work."""

    MACHINE = "machine"
    UNUSED = "unused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel(Box):
    """A frame around other shapes."""

    kind: PanelKind
    is_stack: bool = False
    """Stands for several machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar(Box):
    """GPUs that do one task together, or one idle GPU."""

    task: Task | None
    is_odd: bool = False
    """Every other replica is a shade darker, to distinguish neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """A line from the first point to the last."""

    points: tuple[tuple[float, float], ...]
    colour: str | None
    """``None`` is a link: a broad line without a head."""

    has_two_heads: bool = False

    def moved(self, dx: float, dy: float) -> "Arrow":
        """Return it elsewhere."""
        return replace(self, points=tuple((x + dx, y + dy) for x, y in self.points))


@dataclass(frozen=True, slots=True, kw_only=True)
class Label(Placed):
    """One line of text, vertically centred on its point."""

    text: str
    size: float = SMALL
    anchor: Literal["left", "center", "right"] = "left"
    colour: str = INK
    is_bold: bool = False
    has_paper: bool = False
    """Hides lines that pass beneath it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Shapes on a sheet, from the back to the front."""

    width: float = 0.0
    height: float = 0.0
    shapes: tuple[Panel | Bar | Arrow | Label, ...] = ()
    boxes: Mapping[int | str, Box] = field(default_factory=dict)
    """Where cards are, by their numbers, and regions, by their names."""

    def moved(self, dx: float, dy: float) -> "Drawing":
        """Return its shapes elsewhere, on a sheet of the same size."""
        shapes = tuple(shape.moved(dx, dy) for shape in self.shapes)
        boxes = {key: box.moved(dx, dy) for key, box in self.boxes.items()}
        return replace(self, shapes=shapes, boxes=boxes)

    def only(self, kind: type[S]) -> list[S]:
        """Return its shapes of one class."""
        return [shape for shape in self.shapes if isinstance(shape, kind)]


def together(drawings: Iterable[Drawing], *, width: float = 0.0, height: float = 0.0) -> Drawing:
    """Return the shapes of several drawings on one sheet, the first one's at the back."""
    parts = tuple(drawings)
    return Drawing(
        width=width,
        height=height,
        shapes=tuple(chain.from_iterable(part.shapes for part in parts)),
        boxes={key: box for part in parts for key, box in part.boxes.items()},
    )


def text_width(text: str, size: float, *, is_bold: bool = False) -> float:
    """Return the pixels that a line takes at most."""
    places = (ord(character) - ord(" ") for character in text)
    advances = (_ADVANCES[at] if 0 <= at < len(_ADVANCES) else _OTHER for at in places)
    return sum(advances) / 1000 * size * (BOLD if is_bold else 1)


def fitted(text: str, size: float, *, room: float) -> float:
    """Return the largest size up to ``size`` at which a line fits."""
    return max(SMALLEST, min(size, room / max(1e-9, text_width(text, 1.0))))


def shortened(text: str, size: float, *, room: float, is_bold: bool = False) -> str:
    """Cut the middle out of a name that is too long; its end is what tells machines apart."""
    if text_width(text, size, is_bold=is_bold) <= room:
        return text
    for kept in range(len(text) - 1, 1, -1):
        cut = f"{text[: kept // 2]}…{text[len(text) - (kept - kept // 2) :]}"
        if text_width(cut, size, is_bold=is_bold) <= room:
            return cut
    return "…"


def wrapped(text: str, size: float, *, room: float) -> list[str]:
    """Break a sentence into lines that fit; a single word may be longer."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
