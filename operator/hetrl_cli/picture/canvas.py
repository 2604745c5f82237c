"""The canvas that a plan is drawn on, as SVG or PNG, and the room that text takes.

Lengths are in pixels of 1/100 inch, x to the right and y down. Only this module knows matplotlib.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path
from matplotlib.textpath import text_to_path

PIXELS_PER_INCH, PNG_PIXELS_PER_INCH = 100, 144
POINTS_PER_PIXEL = 72 / PIXELS_PER_INCH

INK, QUIET, LINE, PAPER = "#1f2328", "#5a636d", "#c4cad1", "#ffffff"
TIMES = "\N{MULTIPLICATION SIGN}"

TITLE, HEADING, BODY, SMALL, SMALLEST = 20.0, 13.0, 11.0, 10.0, 6.0
"""Sizes of text."""

_FONT = "DejaVu Sans"

Point = tuple[float, float]


class Layer(IntEnum):
    """Kinds of shapes, from the back to the front."""

    REGION = 1
    SIDE = 2
    """Machines that do the same part of the work."""

    BEHIND = 3
    """The machines beneath one that stands for several."""

    MACHINE = 4
    UNUSED = 5
    BAR = 6
    LINE = 7
    TEXT = 8


_PANELS = {
    Layer.REGION: ("#f3f5f7", "#aab2bb", 10.0),
    Layer.SIDE: (PAPER, "#d5dae0", 8.0),
    Layer.BEHIND: ("#fafbfc", "#8b949e", 5.0),
    Layer.MACHINE: ("#fafbfc", "#8b949e", 5.0),
    Layer.UNUSED: ("#ebedf0", "#d5dae0", 6.0),
}
"""Fill, edge and the corner's radius."""


@dataclass(frozen=True, slots=True)
class Box:
    """An upright rectangle, by its upper left corner and its size."""

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


class Canvas:
    """A sheet with shapes on it."""

    def __init__(self) -> None:
        self.figure = Figure()
        FigureCanvasAgg(self.figure)
        self._axes = self.figure.add_axes((0, 0, 1, 1))
        self._axes.set_axis_off()

    def panel(self, box: Box, layer: Layer) -> None:
        """Draw the frame of what lies on it."""
        fill, edge, radius = _PANELS[layer]
        self._rectangle(box, fill, edge, radius=radius, layer=layer)

    def bar(self, box: Box, fill: str, edge: str) -> None:
        """Draw GPUs that do one task together, or an idle GPU, whose edge is a dashed ``LINE``."""
        self._rectangle(box, fill, edge, radius=3.0, layer=Layer.BAR)

    def line(
        self, points: Sequence[Point], colour: str | None, *, has_two_heads: bool = False
    ) -> None:
        """Draw an arrow through points; without a colour, a link: broad and without a head."""
        style = "<|-|>" if has_two_heads else "-|>"
        self._axes.add_patch(
            FancyArrowPatch(
                path=Path(points),
                color=colour or LINE,
                zorder=Layer.LINE,
                arrowstyle=style if colour else "-",
                mutation_scale=9,
                linewidth=1.5 if colour else 4,
                capstyle="round",
                joinstyle="round",
            )
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = SMALL,
        anchor: Literal["left", "center", "right"] = "left",
        colour: str = INK,
        is_bold: bool = False,
        has_paper: bool = False,
    ) -> None:
        """Write one line, vertically centred on its point; paper hides lines beneath it."""
        self._axes.text(
            x,
            y,
            text,
            ha=anchor,
            va="center_baseline",
            family=_FONT,
            fontsize=size * POINTS_PER_PIXEL,
            color=colour,
            fontweight="bold" if is_bold else "normal",
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.2} if has_paper else None,
            zorder=Layer.TEXT,
            parse_math=False,
        )

    def crop(self, box: Box) -> None:
        """Make a box the whole sheet."""
        self.figure.set_size_inches(box.width / PIXELS_PER_INCH, box.height / PIXELS_PER_INCH)
        self._axes.set_xlim(box.x, box.right)
        self._axes.set_ylim(box.bottom, box.y)

    def to_bytes(self, file_format: str) -> bytes:
        """Return the sheet as a file's bytes, ``svg`` or ``png``: the same for the same shapes."""
        buffer = io.BytesIO()
        metadata = {"Date": None} if file_format == "svg" else {"Software": None}
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hetrl"}):
            self.figure.savefig(
                buffer,
                format=file_format,
                dpi=PNG_PIXELS_PER_INCH,
                facecolor=PAPER,
                metadata=metadata,
            )
        return buffer.getvalue()

    def _rectangle(self, box: Box, fill: str, edge: str, *, radius: float, layer: Layer) -> None:
        self._axes.add_patch(
            FancyBboxPatch(
                (box.x, box.y),
                box.width,
                box.height,
                boxstyle=f"round,pad=0,rounding_size={radius}",
                facecolor=fill,
                edgecolor=edge,
                linewidth=0.8,
                linestyle=(0, (3, 2)) if edge == LINE else "solid",
                zorder=layer,
            )
        )


def text_width(text: str, size: float, *, is_bold: bool = False) -> float:
    """Return the pixels that a line takes."""
    font = FontProperties(family=_FONT, size=size, weight="bold" if is_bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width)


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
