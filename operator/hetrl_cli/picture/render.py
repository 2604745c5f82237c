"""Rendering of a drawing as SVG or PNG. The layout is already decided.

The same drawing gives the same bytes: no date, and identifiers from a fixed salt.
"""

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path as Outline

from hetrl_cli.picture.cards import LOOKS
from hetrl_cli.picture.shapes import LINE, PAPER, Arrow, Bar, Box, Drawing, Label, Panel, PanelKind

PIXELS_PER_INCH = 100
PNG_PIXELS_PER_INCH = 144
POINTS_PER_PIXEL = 72 / PIXELS_PER_INCH

_STYLE = {"font.family": "DejaVu Sans", "svg.fonttype": "none", "svg.hashsalt": "hetrl"}
_PANELS = {
    PanelKind.REGION: ("#f3f5f7", "#aab2bb", 10.0),
    PanelKind.SIDE: (PAPER, "#d5dae0", 8.0),
    PanelKind.MACHINE: ("#fafbfc", "#8b949e", 5.0),
    PanelKind.UNUSED: ("#ebedf0", "#d5dae0", 6.0),
}
"""Fill, edge and the corner's radius."""

_STACK_OFFSETS = (6.0, 3.0)
_PANEL, _BAR, _ARROW, _LABEL = 1, 3, 4, 5
"""Layers, from the back to the front."""


def save(drawing: Drawing, path: Path) -> None:
    """Write a drawing to a file, as its suffix says: ``.svg`` or ``.png``.

    Raises:
        OSError: it cannot be written.
    """
    path.write_bytes(to_bytes(drawing, path.suffix.removeprefix(".").lower()))


def to_bytes(drawing: Drawing, file_format: str) -> bytes:
    """Return a drawing as a file's bytes, ``svg`` or ``png``."""
    buffer = io.BytesIO()
    with mpl.rc_context(_STYLE):
        figure = _figure(drawing)
        metadata = {"Date": None} if file_format == "svg" else {"Software": None}
        figure.savefig(
            buffer, format=file_format, dpi=PNG_PIXELS_PER_INCH, facecolor=PAPER, metadata=metadata
        )
    return buffer.getvalue()


def _figure(drawing: Drawing) -> Figure:
    figure = Figure(figsize=(drawing.width / PIXELS_PER_INCH, drawing.height / PIXELS_PER_INCH))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    axes.set_axis_off()
    for shape in drawing.shapes:
        match shape:
            case Panel():
                _panel(axes, shape)
            case Bar():
                _bar(axes, shape)
            case Arrow():
                _arrow(axes, shape)
            case Label():
                _label(axes, shape)
    return figure


def _panel(axes: Any, panel: Panel) -> None:
    fill, edge, radius = _PANELS[panel.kind]
    for offset in (*(_STACK_OFFSETS if panel.is_stack else ()), 0.0):
        box = panel.moved(offset, offset)
        _rectangle(axes, box, fill=fill, edge=edge, radius=radius, layer=_PANEL)


def _bar(axes: Any, bar: Bar) -> None:
    if bar.task is None:
        _rectangle(axes, bar, fill=PAPER, edge=LINE, radius=3, layer=_BAR, dashed=True)
        return
    look = LOOKS[bar.task]
    fill = look.odd_fill if bar.is_odd else look.fill
    _rectangle(axes, bar, fill=fill, edge=look.odd_fill, radius=3, layer=_BAR)


def _rectangle(
    axes: Any, box: Box, *, fill: str, edge: str, radius: float, layer: int, dashed: bool = False
) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (box.x, box.y),
            box.width,
            box.height,
            boxstyle=f"round,pad=0,rounding_size={radius}",
            facecolor=fill,
            edgecolor=edge,
            linewidth=0.8,
            linestyle=(0, (3, 2)) if dashed else "solid",
            zorder=layer,
        )
    )


def _arrow(axes: Any, arrow: Arrow) -> None:
    style = "<|-|>" if arrow.has_two_heads else "-|>"
    is_link = arrow.colour is None
    axes.add_patch(
        FancyArrowPatch(
            path=Outline(arrow.points),
            color=arrow.colour or LINE,
            zorder=_ARROW,
            arrowstyle="-" if is_link else style,
            mutation_scale=9,
            linewidth=4 if is_link else 1.5,
            capstyle="round",
            joinstyle="round",
        )
    )


def _label(axes: Any, label: Label) -> None:
    axes.text(
        label.x,
        label.y,
        label.text,
        ha=label.anchor,
        va="center_baseline",
        fontsize=label.size * POINTS_PER_PIXEL,
        color=label.colour,
        fontweight="bold" if label.is_bold else "normal",
        bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.2} if label.has_paper else None,
        zorder=_LABEL,
        parse_math=False,
    )
