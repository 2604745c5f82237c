"""Boards as Grafana's dashboards, in Grafana's own types.

It needs a package for development only: the chart ships the output of ``generate``. The boards
define the panels; this module adds what Grafana needs besides.
"""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from grafana_foundation_sdk.builders import bargauge, common, dashboard, heatmap, stat, timeseries
from grafana_foundation_sdk.builders import prometheus as query
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import heatmap as heatmap_models
from grafana_foundation_sdk.models import prometheus as query_models

from hetrl_cli.dashboard.boards.panel import NUM_COLUMNS, Board, Curve, Form, Panel, Row, Variable
from hetrl_cli.dashboard.sources.promql import written

_SOURCE = kinds.DataSourceRef(type_val="prometheus", uid="${datasource}")
_FIGURE_LINES, _PLOT_LINES = 4, 8


def as_json(board: Board) -> str:
    """Return a board as the JSON that Grafana imports."""
    found = json.loads(json.dumps(_dashboard(board), cls=JSONEncoder))
    # Without a number: where it is imported it gets one.
    return json.dumps({"id": None, **found}, indent=1, ensure_ascii=False) + "\n"


def _dashboard(board: Board) -> models.Dashboard:
    built = (
        dashboard.Dashboard(board.title)
        .uid(f"hetrl-{board.name}")
        .description(board.says)
        .tags(["hetrl"])
        .timezone("browser")
        .refresh("30s")
        .time("now-1h", "now")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .editable()
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Source").type("prometheus")
        )
        .link(_others())
    )
    for variable in board.variables:
        built.with_variable(_variable(board, variable))
    found = built.build()
    found.panels = list(_placed(board))
    return found


def _others() -> Builder[models.DashboardLink]:
    return (
        dashboard.DashboardLink("HetRL")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags(["hetrl"])
        .as_dropdown(True)
        .keep_time(True)
    )


def _variable(board: Board, variable: Variable) -> Builder[models.VariableModel]:
    within = [each.match for each in board.variables if each.name in variable.within]
    chosen = ", ".join(
        f'{each.label}{"=~" if each.is_pattern else "="}"{each.value}"' for each in within
    )
    values = f"label_values({variable.metric}{{{chosen}}}, {variable.name})"
    found = (
        dashboard.QueryVariable(variable.name)
        .label(variable.label)
        .datasource(_SOURCE)
        .query(values)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(variable.is_multiple)
        .include_all(variable.is_multiple)
    )
    if variable.is_multiple:
        found.all_value(".*").current(
            models.VariableOption(selected=True, text=["All"], value=["$__all"])
        )
    return found


def _placed(board: Board) -> Iterator[models.Panel | models.RowPanel]:
    """Lay out the rows one below the other, and the panels of each beside each other."""
    numbers, y = count(1), 0
    for row in board.rows:
        yield models.RowPanel(
            title=row.title,
            id_val=next(numbers),
            collapsed=False,
            panels=[],
            grid_pos=models.GridPos(h=1, w=NUM_COLUMNS, x=0, y=y),
        )
        y += 1
        for panel, place in _places(row, y):
            found = _panel(panel, board).build()
            found.id_val = next(numbers)
            found.grid_pos = place
            yield found
            bottom = place.y + place.h
        y = bottom


def _places(row: Row, y: int) -> Iterator[tuple[Panel, models.GridPos]]:
    x = 0
    for panel in row.panels:
        height = _FIGURE_LINES if panel.form is Form.FIGURE else _PLOT_LINES
        if x + panel.width > NUM_COLUMNS:
            x, y = 0, y + height
        yield panel, models.GridPos(h=height, w=panel.width, x=x, y=y)
        x += panel.width


def _panel(panel: Panel, board: Board) -> Any:
    found = _form(panel)
    found.title(panel.title).description(panel.says).datasource(_SOURCE).unit(panel.unit.value)
    if panel.decimals is not None:
        found.decimals(panel.decimals)
    if panel.top is not None:
        found.min(0).max(panel.top)
    for letter, curve in zip("ABCDEF", panel.curves, strict=False):
        found.with_target(_query(curve, panel, board).ref_id(letter))
        if curve.is_limit:
            found.override_by_name(curve.legend, _apart(is_stacked=panel.form is Form.STACK))
    return found


def _form(panel: Panel) -> Any:
    """Return a panel of the right plugin; their builders share no type."""
    match panel.form:
        case Form.FIGURE:
            return stat.Panel().color_mode(kinds.BigValueColorMode.NONE).reduce_options(_newest())
        case Form.BARS:
            return (
                bargauge.Panel()
                .orientation(kinds.VizOrientation.HORIZONTAL)
                .display_mode(kinds.BarGaugeDisplayMode.BASIC)
                .reduce_options(_newest())
            )
        case Form.HEATMAP:
            return (
                heatmap.Panel()
                .color(
                    heatmap.HeatmapColorOptions()
                    .mode(heatmap_models.HeatmapColorMode.SCHEME)
                    .scheme("Blues")
                    .steps(32)
                )
                .y_axis(heatmap.YAxisConfig().decimals(0))
            )
        case Form.LINES | Form.STACK:
            return _time_series(is_stacked=panel.form is Form.STACK)


def _newest() -> common.ReduceDataOptions:
    return common.ReduceDataOptions().calcs(["lastNotNull"])


def _time_series(*, is_stacked: bool) -> timeseries.Panel:
    legend = (
        common.VizLegendOptions()
        .display_mode(kinds.LegendDisplayMode.LIST)
        .placement(kinds.LegendPlacement.BOTTOM)
        .show_legend(True)
    )
    tooltip = (
        common.VizTooltipOptions()
        .mode(kinds.TooltipDisplayMode.MULTI)
        .sort(kinds.SortOrder.DESCENDING)
    )
    found = timeseries.Panel().legend(legend).tooltip(tooltip)
    if not is_stacked:
        return found
    stacking = common.StackingConfig().mode(kinds.StackingMode.NORMAL)
    return found.stacking(stacking).fill_opacity(70).line_width(0)


def _apart(*, is_stacked: bool) -> list[models.DynamicConfigValue]:
    """Draw a line dashed, and beside a stack instead of upon it."""
    line = {"lineStyle": {"fill": "dash", "dash": [8, 6]}}
    beside = {"stacking": {"mode": "none"}, "fillOpacity": 0, "lineWidth": 2}
    return [
        models.DynamicConfigValue(id_val=f"custom.{name}", value=value)
        for name, value in (line | (beside if is_stacked else {})).items()
    ]


def _query(curve: Curve, panel: Panel, board: Board) -> query.Dataquery:
    is_heatmap = panel.form is Form.HEATMAP
    found = (
        query.Dataquery()
        .expr(written(curve.expression, board.scope))
        .legend_format(curve.legend or panel.title)
        .datasource(_SOURCE)
        .format(
            query_models.PromQueryFormat.HEATMAP
            if is_heatmap
            else query_models.PromQueryFormat.TIME_SERIES
        )
    )
    return found.instant() if panel.form is Form.BARS else found.range()
