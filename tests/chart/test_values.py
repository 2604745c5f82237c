"""Values of the chart: each is limited, does something, and what comes of them is Kubernetes'."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft7Validator

from tests.chart.rendering import CHART, helm
from tests.repo.references import leaves, value_at

pytestmark = pytest.mark.cluster

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
PATHS = [".".join(path) for path, _ in leaves(SCHEMA)]
EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))

OLDEST = (1, 33)
SCHEMAS = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"


def release(folder: Path) -> tuple[int, int]:
    """``v1.33.0-local-strict`` is of 1.33."""
    major, minor, *_ = folder.name.removeprefix("v").split(".")
    return int(major), int(minor)


RELEASES = sorted(
    {found for each in SCHEMAS.glob("v*-strict") if (found := release(each)) >= OLDEST}
)

MONITORED = ('metrics.podMonitor.enabled="always"', 'alerts.enabled="always"')
FENCED = ("networkPolicy.enabled=true",)

CHANGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "image.repository": ('"mine"', ()),
    "image.tag": ('"9"', ()),
    "image.digest": (f'"sha256:{"a" * 64}"', ()),
    "image.pullPolicy": ('"Always"', ()),
    "imagePullSecrets": ('[{"name":"mine"}]', ()),
    "images.trainer": ('"mine:1"', ()),
    "images.rollout": ('"mine:1"', ()),
    "images.coordinator": ('"mine:1"', ()),
    "images.pullPolicy": ('"Always"', ()),
    "crds.install": ("false", ()),
    "watchNamespaces": ('["a"]', ()),
    "replicas": ("3", ()),
    "logLevel": ('"DEBUG"', ()),
    "workers": ("3", ()),
    "client.requestsPerSecond": ("3", ()),
    "client.requestsAtOnce": ("3", ()),
    "planner.workers": ("3", ()),
    "planner.memoryMiB": ("1024", ()),
    "preflight.enabled": ("false", ()),
    "kueue.enabled": ("true", ()),
    "progress.existingSecret": ('"mine"', ()),
    "rbac.create": ("false", ()),
    "rbac.aggregate": ("false", ()),
    "serviceAccount.create": ("false", ('serviceAccount.name="mine"',)),
    "serviceAccount.name": ('"mine"', ()),
    "serviceAccount.annotations": ('{"mine":"1"}', ()),
    "resources": ('{"limits":{"cpu":"3"}}', ()),
    "nodeSelector": ('{"mine":"1"}', ()),
    "tolerations": ('[{"key":"mine","operator":"Exists"}]', ()),
    "affinity": ('{"podAntiAffinity":{}}', ()),
    "priorityClassName": ('"mine"', ()),
    "commonLabels": ('{"mine":"1"}', ()),
    "commonAnnotations": ('{"mine":"1"}', ()),
    "podAnnotations": ('{"mine":"1"}', ()),
    "podLabels": ('{"mine":"1"}', ()),
    "extraEnv": ('[{"name":"MINE","value":"1"}]', ()),
    "metrics.podMonitor.enabled": ('"always"', ()),
    "metrics.podMonitor.labels": ('{"mine":"1"}', MONITORED),
    "metrics.podMonitor.interval": ('"7s"', MONITORED),
    "networkPolicy.enabled": ("true", ()),
    "networkPolicy.metricsFrom": ('[{"podSelector":{}}]', FENCED),
    "alerts.enabled": ('"always"', ()),
    "alerts.labels": ('{"mine":"1"}', MONITORED),
    "alerts.runbookUrl": ('"https://mine"', MONITORED),
    "dashboards.enabled": ("false", ()),
    "dashboards.label": ('"mine"', ()),
    "dashboards.labelValue": ('"mine"', ()),
    "dashboards.folder": ('"mine"', ()),
    "fullnameOverride": ('"mine"', ()),
}
"""Every value: another than its default, and what must be set for it to matter."""


@cache
def rendered(*settings: str) -> list[dict[str, Any]]:
    done = helm(
        "template",
        "hetrl",
        str(CHART),
        "--namespace=hetrl-system",
        *(option for each in settings for option in ("--set-json", each)),
    )
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    # The certificate is another at every rendering.
    return [
        each | {"data": sorted(each["data"])} if each["kind"] == "Secret" else each
        for each in objects
    ]


def test_value_table_is_complete() -> None:
    assert list(CHANGES) == PATHS


@pytest.mark.parametrize("path", PATHS)
def test_value_changes_what_is_installed(path: str) -> None:
    value, needed = CHANGES[path]
    assert json.loads(value) != value_at(DEFAULTS, tuple(path.split(".")))

    assert rendered(*needed, f"{path}={value}") != rendered(*needed)


@pytest.mark.parametrize("path", PATHS)
def test_value_of_another_kind_is_refused_by_name(path: str) -> None:
    """As Helm does before it renders; that it does, `test_templates` has seen."""
    names = path.split(".")
    wrong: Any = 7 if isinstance(value_at(DEFAULTS, tuple(names)), str | dict) else "x"
    for name in reversed(names):
        wrong = {name: wrong}

    (trouble,) = Draft7Validator(SCHEMA).iter_errors(wrong)

    assert list(trouble.absolute_path)[-1] == names[-1]


@cache
def of_example(example: Path | None) -> tuple[dict[str, Any], ...]:
    values = ["--values", str(example)] if example else []
    done = helm("template", "hetrl", str(CHART), "--namespace=hetrl-system", *values)
    assert done.returncode == 0, done.stderr
    return tuple(each for each in yaml.safe_load_all(done.stdout) if each)


@pytest.mark.parametrize("example", [None, *EXAMPLES], ids=lambda each: each.stem if each else "-")
@pytest.mark.parametrize("version", RELEASES, ids=lambda each: ".".join(map(str, each)))
def test_example_values_render_valid_objects_for_every_kubernetes(
    example: Path | None, version: tuple[int, int]
) -> None:
    checked = 0
    for each in of_example(example):
        if "monitoring.coreos.com" in each["apiVersion"]:
            continue  # Of the Prometheus operator, which has no part in Kubernetes' releases.
        kubernetes_validate.validate(each, f"{version[0]}.{version[1]}", strict=True)
        checked += 1
    assert checked > 8


def test_oldest_release_that_is_promised_is_among_them() -> None:
    assert RELEASES[0] == OLDEST
    assert len(RELEASES) >= 5
