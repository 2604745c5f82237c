import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from prometheus_client import CollectorRegistry

from hetrl_operator.metrics import Metrics
from hetrl_runtime.metrics.coordinator import CoordinatorMetrics
from hetrl_runtime.metrics.rollout import RolloutMetrics
from hetrl_runtime.metrics.trainer import TrainerMetrics

DASHBOARDS = sorted(Path(__file__).parents[2].glob("charts/hetrl/dashboards/*.json"))
EXPOSED_BY_KIND = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "gauge": ("",),
}
FROM_SCRAPING = {"namespace", "hetrljob", "role", "pool", "pod", "instance", "le"}

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


def exposed() -> dict[str, set[str]]:
    """Every series that our processes expose, with its own labels."""
    found: dict[str, set[str]] = {}
    for metrics in (CoordinatorMetrics, RolloutMetrics, TrainerMetrics, Metrics):
        registry = CollectorRegistry()
        metrics(registry)
        for collector in list(registry._collector_to_names):
            labels = set(getattr(collector, "_labelnames", ()))
            for family in collector.describe() if hasattr(collector, "describe") else ():
                for suffix in EXPOSED_BY_KIND.get(family.type, ("",)):
                    found.setdefault(family.name + suffix, set()).update(labels)
    return found


@dashboards
def test_a_dashboard_can_be_imported_anywhere(path: Path) -> None:
    dashboard = load(path)

    assert dashboard["id"] is None
    assert dashboard["uid"] == f"hetrl-{path.stem}"
    assert dashboard["schemaVersion"] >= 39
    assert dashboard["timezone"] == "browser"
    variables = {each["name"]: each for each in dashboard["templating"]["list"]}
    assert {"datasource", "namespace", "hetrljob"} <= variables.keys()
    assert variables["datasource"]["type"] == "datasource"


@dashboards
def test_every_panel_says_what_it_shows_and_in_what_unit(path: Path) -> None:
    for panel in panels(load(path)):
        assert panel["title"]
        assert len(panel["description"]) > 20, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["targets"]


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
def test_every_query_parses_and_asks_for_one_job(path: Path) -> None:
    for title, expression in expressions(load(path)):
        for selector in selectors(expression):
            asked = {matcher.name: matcher.value for matcher in selector.matchers.matchers}
            assert asked["namespace"] == "$namespace", title
            assert asked["hetrljob"] == "$hetrljob", title


@dashboards
def test_every_series_that_is_asked_for_is_exposed_by_our_code(path: Path) -> None:
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


def test_the_job_dashboard_covers_what_binds_a_run() -> None:
    (path,) = (each for each in DASHBOARDS if each.stem == "job")
    asked = {
        selector.name
        for _, expression in expressions(load(path))
        for selector in selectors(expression)
    }

    assert asked >= {
        "hetrl_sample_staleness_versions_bucket", "hetrl_trainer_step",
        "hetrl_trainer_step_seconds_sum", "hetrl_trainer_wait_seconds_sum",
        "hetrl_tokens_generated_total", "hetrl_trajectories_total", "hetrl_buffer_trajectories",
        "hetrl_weight_sync_seconds_bucket", "hetrl_reward_mean",
        "hetrl_plan_predicted_step_seconds", "hetrl_cost_dollars_per_hour",
    }  # fmt: skip


def test_every_metric_of_the_runtime_is_in_a_panel_of_the_job() -> None:
    (path,) = (each for each in DASHBOARDS if each.stem == "job")
    asked = {
        selector.name
        for _, expression in expressions(load(path))
        for selector in selectors(expression)
    }
    for metrics in (CoordinatorMetrics, RolloutMetrics, TrainerMetrics):
        registry = CollectorRegistry()
        metrics(registry)
        for family in registry.collect():
            shown = {family.name + suffix for suffix in EXPOSED_BY_KIND.get(family.type, ("",))}
            assert shown & asked, family.name
