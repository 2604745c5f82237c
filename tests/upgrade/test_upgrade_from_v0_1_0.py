"""From v0.1.0 to this release and back while a job runs: charts by Helm, operators as processes.

Nodes are kwok's. The chart's own Deployment only pretends to run there; the operator of either
release is a process of its own, as in the other tests on an API server.
"""

import os
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.cluster import Cluster
from e2e.cluster.machines import evenly
from tests.controller.api_server import scale, uids
from tests.controller.operator_process import (
    Namespace,
    OperatorProcess,
    a_job,
    eventually,
)

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
RELEASED = ROOT / "tests" / "fixtures" / "v0.1.0"
OLD_CHART, NEW_CHART = RELEASED / "hetrl-0.1.0.tgz", ROOT / "charts" / "hetrl"
IMAGES = "--set=images.trainer=hetrl/trainer:test,images.rollout=hetrl/rollout:test"
SYSTEM = ("--namespace", "hetrl-system")
REST_SECONDS = 10


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster.start(name=f"upgrade-{os.getpid()}", fake_nodes=evenly(4)) as found:
        yield found


@pytest.fixture
def old_code(tmp_path: Path) -> str:
    """Where Python finds v0.1.0 before it finds us."""
    with zipfile.ZipFile(RELEASED / "hetrl-0.1.0-py3-none-any.whl") as wheel:
        wheel.extractall(tmp_path / "v0.1.0")
    return str(tmp_path / "v0.1.0")


def install(cluster: Cluster, chart: Path) -> None:
    cluster.helm("upgrade", "--install", "hetrl", str(chart), *SYSTEM, "--create-namespace", IMAGES)
    for kind in ("hetrljobs", "hetrlplans", "hetrltopologies"):
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{kind}.hetrl.dev")


def test_running_job_keeps_its_pods_over_an_upgrade_and_back(
    cluster: Cluster, old_code: str, tmp_path: Path
) -> None:
    install(cluster, OLD_CHART)
    operator = OperatorProcess(cluster, tmp_path)
    operator.start(PYTHONPATH=old_code)
    space = Namespace(cluster, "default")
    space.apply(a_job(resources={}, rollout={"replicas": 2}))
    until_it_runs(space, operator, old_code)
    before = uids(space)

    operator.stop()
    install(cluster, NEW_CHART)
    operator.start()
    eventually(lambda: space.condition("Progressing"), what="a condition that v0.1.0 lacks")
    wait_for_rest(space)
    assert uids(space) == before

    space.patch({"progressDeadlineSeconds": 900})
    scale(space, 3)
    eventually(lambda: len(uids(space, "-rollout-")) == 3, what="a third rollout")
    space.wait_for_phase("Running")
    grown = uids(space)
    assert before.items() <= grown.items()
    followed = space.job()["status"]["plan"]["name"]
    wait_for_rest(space)
    plans = space.names("hetrlplans")
    assert len(plans) == 2, "the plan before is kept"

    operator.stop()
    cluster.helm("rollback", "hetrl", "1", *SYSTEM)
    operator.start(PYTHONPATH=old_code)
    wait_for_rest(space)
    # v0.1.0 lets rollouts be replaced one by one whenever their template changes, and it does not
    # know ours; what would cost steps stays.
    assert uids(space).keys() == grown.keys()
    assert {name for name, uid in uids(space).items() if grown[name] != uid} <= set(
        uids(space, "-rollout-")
    )
    space.wait_for_phase("Running")
    # Of a history it knows nothing, and the plan that the pods stand on is the only one it sees.
    assert space.names("hetrlplans") == plans
    assert space.job()["status"]["plan"]["name"] == followed

    operator.stop()
    install(cluster, NEW_CHART)
    operator.start()
    wait_for_rest(space)
    assert space.names("hetrlplans") == plans
    assert space.job()["status"]["plan"]["name"] == followed
    cluster.kubectl("delete", "hetrljob", "sums", "--timeout=120s")
    assert operator.stop() == 0
    assert "Traceback" not in operator.log.read_text()


def until_it_runs(space: Namespace, operator: OperatorProcess, old_code: str) -> None:
    """Wait for a job of v0.1.0, which does not notice a watch that has fallen silent."""
    try:
        eventually(lambda: space.phase() == "Running", what="sums is Running", seconds=60)
    except AssertionError:
        operator.stop()
        operator.start(PYTHONPATH=old_code)
        space.wait_for_phase("Running")


def wait_for_rest(space: Namespace) -> None:
    """Wait until a while passes in which nothing of the job is written."""
    last, since = space.versions(), time.monotonic()

    def is_at_rest() -> bool:
        nonlocal last, since
        now = space.versions()
        if now != last:
            last, since = now, time.monotonic()
        return time.monotonic() - since >= REST_SECONDS

    eventually(is_at_rest, what=f"nothing is written for {REST_SECONDS} s")
