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

from hetrl_cli.picture.content.movement import FlowKind
from hetrl_cli.picture.content.palette import FLOW_COLOURS, INK, LINE, LOOKS, PAPER, QUIET
from hetrl_cli.picture.drawing.shapes import Arrow, Bar, Box, Drawing, Label, Panel, PanelKind, Tone

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
_LAYERS = {"panel": 1, "arrow": 4, "bar": 3, "label": 5}


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
    size = drawing.width / PIXELS_PER_INCH, drawing.height / PIXELS_PER_INCH
    figure = Figure(figsize=size)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    axes.set_axis_off()
    for panel in drawing.panels:
        _panel(axes, panel)
    for bar in drawing.bars:
        _bar(axes, bar)
    for arrow in drawing.arrows:
        _arrow(axes, arrow)
    for label in drawing.labels:
        _label(axes, label)
    return figure


def _panel(axes: Any, panel: Panel) -> None:
    fill, edge, radius = _PANELS[panel.kind]
    for offset in (*(_STACK_OFFSETS if panel.is_stack else ()), 0.0):
        box = panel.box.moved(offset, offset)
        _rectangle(axes, box, fill=fill, edge=edge, radius=radius, layer="panel")


def _bar(axes: Any, bar: Bar) -> None:
    if bar.task is None:
        _rectangle(axes, bar.box, fill=PAPER, edge=LINE, radius=3, layer="bar", dashed=True)
        return
    look = LOOKS[bar.task]
    fill = look.odd_fill if bar.is_odd else look.fill
    _rectangle(axes, bar.box, fill=fill, edge=look.odd_fill, radius=3, layer="bar")


def _rectangle(
    axes: Any, box: Box, *, fill: str, edge: str, radius: float, layer: str, dashed: bool = False
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
            zorder=_LAYERS[layer],
        )
    )


def _arrow(axes: Any, arrow: Arrow) -> None:
    outline = Outline(arrow.points, [Outline.MOVETO, *[Outline.LINETO] * (len(arrow.points) - 1)])
    style = "<|-|>" if arrow.has_two_heads else "-|>"
    axes.add_patch(
        FancyArrowPatch(
            path=outline,
            color=_colour(arrow),
            zorder=_LAYERS["arrow"],
            arrowstyle="-" if arrow.ink is None else style,
            mutation_scale=9,
            linewidth=4 if arrow.ink is None else 1.5,
            capstyle="round",
            joinstyle="round",
        )
    )


def _colour(arrow: Arrow) -> str:
    if arrow.ink is None:
        return LINE
    return FLOW_COLOURS[arrow.ink] if isinstance(arrow.ink, FlowKind) else LOOKS[arrow.ink].odd_fill


def _label(axes: Any, label: Label) -> None:
    paper = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.2} if label.has_paper else None
    axes.text(
        *label.at,
        label.text,
        ha=label.anchor,
        va="center_baseline",
        fontsize=label.size * POINTS_PER_PIXEL,
        color=_text_colour(label),
        fontweight="bold" if label.is_bold else "normal",
        bbox=paper,
        zorder=_LAYERS["label"],
        parse_math=False,
    )


def _text_colour(label: Label) -> str:
    if label.on is not None:
        return LOOKS[label.on].text
    if isinstance(label.ink, FlowKind):
        return FLOW_COLOURS[label.ink]
    return QUIET if label.ink is Tone.QUIET else INK
