"""Expressions as PromQL, asking about what the board's variables name."""

from hetrl_cli.dashboard.boards.expression import (
    Age,
    Ceiling,
    Change,
    Combined,
    Expression,
    Folded,
    Match,
    Quantile,
    Series,
)

WINDOW = "$__rate_interval"
"""Grafana's word for a window that holds some scrapes at any zoom."""


def written(  # noqa: C901  # one case a form
    expression: Expression, scope: tuple[Match, ...], *, window: str = WINDOW
) -> str:
    """Write a query.

    Args:
        expression: what is asked for.
        scope: conditions that every series must meet.
        window: what rates are taken over: Grafana's variable, or ``60s``.
    """

    def write(each: Expression) -> str:
        match each:
            case Series():
                return _selector(each, scope)
            case Change(series, is_per_second):
                function = "rate" if is_per_second else "increase"
                return f"{function}({_selector(series, scope)}[{window}])"
            case Folded(fold, inner, by):
                groups = f" by ({', '.join(by)}) " if by else ""
                return f"{fold}{groups}({write(inner)})"
            case Quantile(q, buckets):
                return f"histogram_quantile({q:g}, {write(buckets)})"
            case Ceiling(inner):
                return f"ceil({write(inner)})"
            case Age(series):
                return f"time() - {_selector(series, scope)}"
            case Combined(left, operator, right):
                return f"{_operand(left, write(left))} {operator} {_operand(right, write(right))}"

    return write(expression)


def _operand(expression: Expression, text: str) -> str:
    return f"({text})" if isinstance(expression, Combined | Age) else text


def _selector(series: Series, scope: tuple[Match, ...]) -> str:
    matches = ", ".join(_match(each) for each in (*scope, *series.where))
    return f"{series.name}{{{matches}}}"


def _match(match: Match) -> str:
    value = match.value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{match.label}{"=~" if match.is_pattern else "="}"{value}"'
