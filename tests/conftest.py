"""How every test runs: properties draw the same examples on every machine, at any speed.

A test that fails says what its operator and its cluster said last: both are gone when somebody
reads of it.
"""

import json
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from e2e.cluster.errors import MissingPackagesError
from tests.tiers import TESTS_ALL

if TYPE_CHECKING:
    from e2e.cluster.cluster import Cluster

_TOLD_CHARACTERS = 20_000

# Tests run beside each other and start processes: with PyTorch's thread for each core in every one
# of them, they would mostly wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile(
    "gate", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", parent=settings.get_profile("gate"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    with _skipped_without_packages():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    with _skipped_without_packages():
        yield


@contextmanager
def _skipped_without_packages() -> Iterator[None]:
    """Skip a test whose Debian packages cannot be installed, unless all tests must run."""
    try:
        yield
    except MissingPackagesError as error:
        if os.environ.get(TESTS_ALL) == "1":
            raise
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and item.get_closest_marker("cluster"):
        report.sections += [(name, text[-_TOLD_CHARACTERS:]) for name, text in _said_last(item)]
    return report


def _said_last(item: pytest.Function) -> Iterator[tuple[str, str]]:
    """Yield what the logs of a test's own folder, its operator and its cluster end with."""
    # Not everywhere that tests run is there what drives clusters.
    from e2e.cluster.cluster import Cluster  # noqa: PLC0415
    from tests.controller.operator_process import OperatorProcess  # noqa: PLC0415

    given = item.funcargs
    logs = sorted(given["tmp_path"].glob("*.log")) if "tmp_path" in given else []
    logs += [each.log for each in given.values() if isinstance(each, OperatorProcess)]
    for log in dict.fromkeys(logs):
        yield str(log), _end_of(log)
    for each in given.values():
        if isinstance(each, Cluster):
            yield from _state_of(each)


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace") if log.is_file() else "(no log)"


def _state_of(cluster: "Cluster") -> Iterator[tuple[str, str]]:
    try:
        yield "objects", cluster.kubectl("get", "-A", "-o", "wide", "nodes,statefulsets,pods")
        yield "pods that are not ready", json.dumps(list(_not_ready(cluster)), indent=1)
        yield "components", cluster.logs_tail()
    except Exception as error:  # the test's own failure is what is to be read
        yield "components", f"cannot be asked: {error}"


def _not_ready(cluster: "Cluster") -> Iterator[dict[str, Any]]:
    """Yield the names and the status of pods that are not ready."""
    for each in json.loads(cluster.kubectl("get", "-A", "-o", "json", "pods"))["items"]:
        conditions = {one["type"]: one["status"] for one in each["status"].get("conditions", [])}
        if conditions.get("Ready") != "True":
            name = f"{each['metadata']['namespace']}/{each['metadata']['name']}"
            yield {"name": name, **each["status"]}
