"""Alerts: each fires when it must, is quiet when it must, asks what exists, and has a runbook."""

import re
import subprocess
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry, ProcessCollector

from e2e.cluster.packages import PROMETHEUS_PACKAGES, require_packages
from tests.chart.exposed import exposed
from tests.chart.rendering import CHART, ROOT, of_kind
from tests.chart.test_dashboards import FROM_SCRAPING, selectors

RULES = CHART / "alerts" / "hetrl.yaml"
CASES = Path(__file__).with_name("alerts.yaml")
RUNBOOKS = ROOT / "docs" / "operations" / "alerts.md"

GROUPS = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = [rule for group in GROUPS for rule in group["rules"]]

alerts = pytest.mark.parametrize("alert", ALERTS, ids=lambda each: each["alert"])


def promtool(*arguments: str) -> None:
    require_packages(PROMETHEUS_PACKAGES)
    done = subprocess.run(
        ["promtool", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.cluster
def test_promtool_has_nothing_to_say_against_the_rules() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))


@pytest.mark.cluster
def test_alerts_fire_and_stay_quiet_as_they_should() -> None:
    promtool("test", "rules", str(CASES))


def test_alerts_have_a_firing_and_a_quiet_case() -> None:
    named = {each["name"] for each in yaml.safe_load(CASES.read_text())["tests"]}
    names = [alert["alert"] for alert in ALERTS]
    assert named == {f"{name} fires" for name in names} | {f"{name} is quiet" for name in names}


@alerts
def test_alert_says_how_bad_it_is_and_what_it_is(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert len(alert["annotations"]["summary"]) > 20


@alerts
def test_alert_asks_only_for_series_that_our_code_exposes(alert: dict[str, Any]) -> None:
    process = CollectorRegistry()
    ProcessCollector(registry=process)
    series = exposed() | {family.name: set() for family in process.collect()}
    for selector in selectors(promql_parser.parse(alert["expr"])):
        assert selector.name in series
        asked = {matcher.name for matcher in selector.matchers.matchers}
        assert asked <= series[selector.name] | FROM_SCRAPING


def test_alerts_and_runbooks_match() -> None:
    parts = re.findall(r"^### (\w+)$", RUNBOOKS.read_text(), flags=re.MULTILINE)
    assert parts == [alert["alert"] for alert in ALERTS]


@pytest.mark.cluster
def test_chart_ships_alerts_where_prometheus_would_take_them() -> None:
    assert of_kind("PrometheusRule") == []
    (rule,) = of_kind(
        "PrometheusRule", 'alerts.enabled="always"', 'alerts.labels={"release":"kube"}'
    )
    assert rule["spec"]["groups"] == GROUPS
    assert rule["metadata"]["labels"]["release"] == "kube"


@pytest.mark.cluster
def test_alerts_link_to_their_runbooks() -> None:
    (rule,) = of_kind(
        "PrometheusRule", 'alerts.enabled="always"', 'alerts.runbookUrl="https://wiki/alerts"'
    )
    (stalled, *_) = rule["spec"]["groups"][0]["rules"]
    assert stalled["annotations"]["runbook_url"] == "https://wiki/alerts#hetrlstepstalled"
