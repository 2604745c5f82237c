"""The chart as Helm renders it, with the binary that the local cluster builds."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.build import program

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "hetrl"


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm; the caller checks the exit code."""
    return subprocess.run(
        [program("helm"), *arguments], capture_output=True, text=True, timeout=120, check=False
    )


@cache
def rendered(*settings: str, namespace: str = "hetrl-system") -> tuple[dict[str, Any], ...]:
    """Return the objects of a release: ``rendered("metrics.podMonitor.enabled=always")``."""
    options = [option for each in settings for option in ("--set-json", each)]
    return _objects("--namespace", namespace, "--skip-tests", *options)


def hooks() -> tuple[dict[str, Any], ...]:
    """Return what only ``helm test`` makes."""
    every = _objects("--show-only", "templates/tests/plan.yaml")
    return tuple(each for each in every if "helm.sh/hook" in each["metadata"]["annotations"])


def _objects(*options: str) -> tuple[dict[str, Any], ...]:
    done = helm("template", "hetrl", str(CHART), *options)
    assert done.returncode == 0, done.stderr
    return tuple(each for each in yaml.safe_load_all(done.stdout) if each)


def of_kind(kind: str, *settings: str) -> list[dict[str, Any]]:
    """Return the objects of one kind."""
    return [each for each in rendered(*settings) if each["kind"] == kind]
