"""The request to a planner's process for a job that runs by a plan."""

import pytest

from hetrl_api.fleet.place import Absence
from hetrl_core.fleet.snapshot import ClusterSnapshot, Machine
from hetrl_operator.planning.request import CurrentPlan
from tests.builders import a_kind
from tests.controller.values import a_plan


def cordoned(name: str, kind: str) -> Absence:
    machine = Machine(name=name, gpu_kind=kind, region="local", num_gpus=8)
    return Absence(
        node=name, gpu_kind=kind, labels={}, reason="cordoned", machine=machine, kind=a_kind(kind)
    )


@pytest.mark.parametrize(
    ("with_rollouts", "kept"),
    [
        pytest.param(True, {"a100-0": 1, "l4-0": 2, "l4-9": 1}, id="all"),
        pytest.param(False, {"a100-0": 1, "l4-9": 1}, id="beside-other-rollouts"),
    ],
)
def test_remaining_pods_may_stay_on_closed_machines(
    kept: dict[str, int], *, with_rollouts: bool
) -> None:
    closed = (cordoned("a100-0", "A100-80GB"), cordoned("l4-0", "L4"), cordoned("l4-9", "L4"))
    current = CurrentPlan(plan=a_plan(inference=("l4-9",)), keeps_trainer=True, closed=closed)

    found = current.opened(ClusterSnapshot(gpu_kinds=(), machines=()), with_rollouts=with_rollouts)

    assert {each.name: each.num_gpus for each in found.machines} == kept
