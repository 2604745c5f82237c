"""Panels and boards as values: queries, descriptions, units and widths.

Nothing here draws. Widths are columns of 24, as Grafana counts them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from hetrl_cli.dashboard.boards.expression import Expression, Match, quantile

NUM_COLUMNS = 24


class Unit(StrEnum):
    """Unit of a figure; values are Grafana's names."""

    COUNT = "short"
    SHARE = "percentunit"
    """0 to 1, shown as per cent."""

    SECONDS = "s"
    DOLLARS = "currencyUSD"
    BYTES = "bytes"


class Form(StrEnum):
    """Form in which a panel is drawn."""

    FIGURE = "stat"
    """The newest value, large."""

    LINES = "timeseries"
    STACK = "stacked"
    """Lines on top of each other: shares of one whole."""

    HEATMAP = "heatmap"
    """Counts by bucket over time; its only curve keeps ``le``."""

    BARS = "bargauge"
    """The newest value of each series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One query of a panel."""

    expression: Expression
    legend: str = ""
    """``{{pool}}`` stands for a label's value, as in Grafana."""

    is_limit: bool = False
    """Whether it is a reference for the others, such as a bound: dashed, and never stacked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A chart or figure under one title."""

    title: str
    """Unique on its board."""

    says: str
    """Description, in a sentence or two."""

    form: Form = Form.LINES
    unit: Unit = Unit.COUNT
    decimals: int | None = None
    """None: as many as the value needs."""

    top: float | None = None
    """End of the axis; None: the largest value."""

    width: int
    curves: tuple[Curve, ...]


def chart(
    title: str,
    says: str,
    curves: Mapping[str, Expression],
    *,
    limits: Mapping[str, Expression] | None = None,
    form: Form = Form.LINES,
    unit: Unit = Unit.COUNT,
    top: float | None = None,
    width: int = 8,
) -> Panel:
    """Return a chart of curves, and of limits for them, by their legends."""
    return Panel(
        title=title,
        says=says,
        form=form,
        unit=unit,
        top=top,
        width=width,
        curves=(
            *(Curve(expression=each, legend=legend) for legend, each in curves.items()),
            *(
                Curve(expression=each, legend=legend, is_limit=True)
                for legend, each in (limits or {}).items()
            ),
        ),
    )


def figure(
    title: str,
    says: str,
    expression: Expression,
    unit: Unit = Unit.COUNT,
    *,
    width: int = 4,
    decimals: int | None = None,
) -> Panel:
    """Return a panel of one value."""
    return Panel(
        title=title,
        says=says,
        form=Form.FIGURE,
        unit=unit,
        decimals=decimals,
        width=width,
        curves=(Curve(expression=expression),),
    )


def quantiles(histogram: str) -> dict[str, Expression]:
    """Return the curves of a histogram: its median and its 95th percentile."""
    return {"median": quantile(0.5, histogram), "95th percentile": quantile(0.95, histogram)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


def row(title: str, *panels: Panel) -> Row:
    """Return panels under one heading."""
    return Row(title=title, panels=panels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A choice on a board, such as the job."""

    name: str
    label: str
    metric: str
    """The metric whose label of that name gives the choices."""

    is_multiple: bool = False
    within: tuple[str, ...] = ()
    """Variables whose choice narrows this one's."""

    @property
    def match(self) -> Match:
        """The condition that a choice puts on every series."""
        return Match(self.name, f"${self.name}", is_pattern=self.is_multiple)

    def chosen(self, value: str) -> Match:
        """Return the condition that this choice puts on every series."""
        if not self.is_multiple:
            return Match(self.name, value)
        return Match(self.name, re.escape(value) if value else ".*", is_pattern=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A dashboard."""

    name: str
    """Part of file names and addresses: ``job``."""

    title: str
    says: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]

    @property
    def panels(self) -> Iterator[Panel]:
        """Every panel, row by row."""
        return (panel for row in self.rows for panel in row.panels)

    @property
    def scope(self) -> tuple[Match, ...]:
        """The conditions of any choice, as Grafana's variables."""
        return tuple(each.match for each in self.variables)

    def chosen(self, choice: Mapping[str, str]) -> tuple[Match, ...]:
        """Return the conditions of a choice; where many may be chosen and none is, any will do."""
        return tuple(each.chosen(choice.get(each.name, "")) for each in self.variables)
