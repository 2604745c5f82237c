"""The boards and what Grafana is given of them: valid, readable, and about what exists."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from hetrl_cli.dashboard.boards.all import BOARDS
from hetrl_cli.dashboard.boards.panel import Form
from hetrl_cli.dashboard.generate import texts
from tests.chart.exposed import exposed, families

DASHBOARDS = sorted(texts())
FROM_SCRAPING = {"namespace", "hetrljob", "role", "pool", "pod", "instance", "le"}

NOT_DRAWN = {
    "process_virtual_memory_bytes": "memory mapped and not used; resident memory is drawn",
    "process_start_time_seconds": "of alert HetRLCrashLoop",
    "process_max_fds": "a limit that nobody comes near",
}
"""Series in no panel, each with the reason."""

dashboards = pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions(dashboard: dict[str, Any]) -> Iterator[tuple[str, promql_parser.Expr]]:
    for panel in panels(dashboard):
        for target in panel["targets"]:
            text = target["expr"].replace("$__rate_interval", "1m")
            yield panel["title"], promql_parser.parse(text)


def selectors(expression: promql_parser.Expr) -> list[promql_parser.VectorSelector]:
    found: list[promql_parser.VectorSelector] = []

    def visit(each: promql_parser.Expr) -> promql_parser.Expr:
        if isinstance(each, promql_parser.VectorSelector):
            found.append(each)
        return each

    promql_parser.transform(expression, visit)
    return found


@dashboards
def test_chart_ships_what_the_boards_say(path: Path) -> None:
    """`make crds` writes them."""
    assert path.read_text() == texts()[path]


def test_chart_ships_no_other_dashboard() -> None:
    assert sorted(DASHBOARDS[0].parent.glob("*")) == DASHBOARDS


@dashboards
def test_grafanas_types_round_trip_a_dashboard(path: Path) -> None:
    found = load(path)
    assert found.pop("id") is None

    read = Dashboard.from_json(found)

    assert json.loads(json.dumps(read, cls=JSONEncoder)) == found


@dashboards
def test_dashboard_can_be_imported_anywhere(path: Path) -> None:
    dashboard = load(path)

    assert dashboard["uid"] == f"hetrl-{path.stem}"
    assert dashboard["schemaVersion"] >= 39
    assert dashboard["timezone"] == "browser"
    assert dashboard["description"]
    variables = {each["name"]: each for each in dashboard["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert {"namespace", "pod" if path.stem == "operator" else "hetrljob"} <= variables.keys()
    for name, each in variables.items():
        assert each["label"], name
        if each["type"] == "query":
            assert each["datasource"]["uid"] == "${datasource}"
            assert each["refresh"] == 2, name  # with the time range: jobs come and go


@dashboards
def test_panels_say_what_they_show_in_which_unit(path: Path) -> None:
    for panel in panels(load(path)):
        assert panel["title"]
        assert len(panel["description"]) > 10, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            assert target["legendFormat"], panel["title"]


@dashboards
def test_panels_lie_beside_each_other(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in load(path)["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + line)
            for column in range(place["w"])
            for line in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in load(path)["panels"]]
    assert len(set(ids)) == len(ids)


@dashboards
def test_queries_parse_and_use_the_selection(path: Path) -> None:
    dashboard = load(path)
    chosen = {
        each["name"]: f"${each['name']}"
        for each in dashboard["templating"]["list"]
        if each["type"] == "query"
    }
    for title, expression in expressions(dashboard):
        for selector in selectors(expression):
            asked = {matcher.name: matcher.value for matcher in selector.matchers.matchers}
            assert asked.items() >= chosen.items(), title


@dashboards
def test_queried_series_are_exposed_by_our_code(path: Path) -> None:
    series = exposed()

    for title, expression in expressions(load(path)):
        for selector in selectors(expression):
            assert selector.name in series, f"{title}: {selector.name}"
            asked = {matcher.name for matcher in selector.matchers.matchers}
            assert asked <= series[selector.name] | FROM_SCRAPING, title


@dashboards
def test_rates_follow_the_scrape_interval(path: Path) -> None:
    for panel in panels(load(path)):
        for target in panel["targets"]:
            assert "[" not in target["expr"].replace("[$__rate_interval]", ""), panel["title"]


def test_metrics_are_in_a_panel_or_listed_as_left_out() -> None:
    asked = {
        selector.name
        for path in DASHBOARDS
        for _, expression in expressions(load(path))
        for selector in selectors(expression)
    }
    undrawn = {each.name for each in families() if not asked & set(each.series)}

    assert undrawn == NOT_DRAWN.keys()


def test_labels_are_few_and_none_can_take_any_value() -> None:
    """No uid, no prompt, no address: a series for each would fill any Prometheus."""
    known = {
        # Jobs' own, which end with the job.
        "namespace",
        "hetrljob",
        # From lists in our code, or in Kubernetes' and HTTP's.
        "outcome",
        "link",
        "kind",
        "result",
        "method",
        "code",
        "resource",
        "type",
        "phase",
        "role",
        "state",
        "version",
        "reason",
        # Names of the job's own rewards, of which there are at most eight.
        "part",
        # Kinds of GPUs.
        "pool",
    }
    assert {label for each in families() for label in each.labels} <= known


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_titles_of_a_board_are_its_panels_names(board: Any) -> None:
    titles = [panel.title for panel in board.panels]
    assert len(set(titles)) == len(titles)
    for panel in board.panels:
        assert panel.form is not Form.HEATMAP or len(panel.curves) == 1
        assert panel.form is not Form.FIGURE or len(panel.curves) == 1


def test_job_board_covers_what_binds_a_run() -> None:
    (path,) = (each for each in DASHBOARDS if each.stem == "job")
    asked = {
        selector.name
        for _, expression in expressions(load(path))
        for selector in selectors(expression)
    }

    assert asked >= {
        "hetrl_sample_staleness_versions_bucket",
        "hetrl_trainer_step",
        "hetrl_max_staleness_versions",
        "hetrl_trainer_step_seconds_sum",
        "hetrl_trainer_wait_seconds_sum",
        "hetrl_tokens_generated_total",
        "hetrl_trajectories_total",
        "hetrl_buffer_trajectories",
        "hetrl_weight_sync_seconds_bucket",
        "hetrl_reward_mean",
        "hetrl_plan_gap_ratio",
        "hetrl_plan_predicted_step_seconds",
        "hetrl_cost_dollars_per_hour",
        "hetrl_rollout_idle_seconds_total",
    }
