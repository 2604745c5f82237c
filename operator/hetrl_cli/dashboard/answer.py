"""Responses to the page: a board's definition, and the figures of its panels for one span."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from hetrl_cli.dashboard.boards.panel import Board, Curve, Form, Panel
from hetrl_cli.dashboard.sources.source import Line, Source, Span, Values

NUM_POINTS = 240
"""Moments that a chart has: about one for two pixels of a panel on a laptop."""

Json = dict[str, Any]


def definition(board: Board) -> Json:
    """Return the definition of a board, without figures."""
    return {
        "name": board.name,
        "title": board.title,
        "says": board.says,
        "variables": [
            {"name": each.name, "label": each.label, "isMultiple": each.is_multiple}
            for each in board.variables
        ],
        "rows": [
            {"title": row.title, "panels": [_panel(panel) for panel in row.panels]}
            for row in board.rows
        ],
    }


async def span(
    source: Source, board: Board, choice: Mapping[str, str], *, seconds: float | None, now: float
) -> tuple[Span, bool]:
    """Return the span to show and whether more is to come.

    Args:
        source: what knows how far back it remembers.
        board: what is shown.
        choice: of what.
        seconds: how long the span is to be; None: all that is remembered.
        now: Unix time.
    """
    extent = await source.extent(board.chosen(choice))
    begin, end, is_live = (extent.begin, extent.end, extent.is_live) if extent else (0.0, now, True)
    if seconds is not None:
        begin = max(begin, end - seconds)
    step = max(0.5, (end - begin) / NUM_POINTS)
    # On a grid, so that what was drawn stays as it is when time goes on.
    end = np.ceil(end / step) * step if not extent else end
    return Span(begin=begin, end=float(end), step_seconds=step), is_live


async def filled(
    source: Source, board: Board, choice: Mapping[str, str], asked: Span
) -> dict[str, Json]:
    """Return every panel's figures, by its title."""
    curves = [(panel, curve) for panel in board.panels for curve in panel.curves]
    answers = await source.ask(
        [curve.expression for _, curve in curves], board.chosen(choice), asked
    )
    found: dict[str, Json] = {panel.title: {"lines": []} for panel in board.panels}
    for (panel, curve), lines in zip(curves, answers, strict=True):
        if panel.form is Form.HEATMAP:
            found[panel.title] |= _heatmap(lines)
        else:
            found[panel.title]["lines"] += _lines(panel, curve, lines)
    return found


def _panel(panel: Panel) -> Json:
    return {
        "title": panel.title,
        "says": panel.says,
        "form": panel.form.value,
        "unit": panel.unit.value,
        "decimals": panel.decimals,
        "top": panel.top,
        "width": panel.width,
    }


def _lines(panel: Panel, curve: Curve, lines: Sequence[Line]) -> Iterator[Json]:
    named = sorted((_name(panel, curve, line.labels), line) for line in lines) if lines else []
    for name, line in named:
        yield {"name": name, "isLimit": curve.is_limit, "values": _values(line.values)}


def _name(panel: Panel, curve: Curve, labels: Mapping[str, str]) -> str:
    return re.sub(
        r"{{(\w+)}}", lambda found: labels.get(found[1], "-"), curve.legend or panel.title
    )


def _values(values: Values) -> list[float | None]:
    return [float(f"{each:.6g}") if np.isfinite(each) else None for each in values]


def _heatmap(lines: Sequence[Line]) -> Json:
    """Turn counts up to each bucket's edge into counts within each bucket."""
    by_edge = sorted((float(line.labels["le"]), line.values) for line in lines if len(line.values))
    edges = [edge for edge, _ in by_edge]
    below = np.zeros_like(by_edge[0][1]) if by_edge else np.zeros(0)
    cells: list[Values] = []
    for _, upto in by_edge:
        cells.append(np.maximum(0.0, upto - below))
        below = upto
    # Buckets above the last that anything fell into say nothing.
    used = max((n for n, each in enumerate(cells) if np.nansum(each) > 0), default=-1) + 1
    return {
        "buckets": _buckets(edges)[:used],
        "cells": [_values(each) for each in cells[:used]],
    }


def _buckets(edges: Sequence[float]) -> list[str]:
    """Name buckets of whole numbers by what falls into them: ``3``, ``5–6``, ``> 16``."""  # noqa: RUF002
    names = [f"{edges[0]:g}"] if edges else []
    for low, high in pairwise(edges):
        if np.isinf(high):
            names.append(f"> {low:g}")
        else:
            names.append(f"{high:g}" if high - low == 1 else f"{low + 1:g}\N{EN DASH}{high:g}")
    return names
