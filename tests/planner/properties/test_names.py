"""Plans do not depend on the names or the order of machines."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.algorithm import AlgorithmType, Mode
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Infeasible, Plan
from tests.planner.properties.cases import FLEETS, LIMITED_JOBS, PlanCase, a_fleet_of, small


@pytest.mark.slow
@pytest.mark.parametrize("mode", Mode)
def test_names_of_unequal_machines_change_nothing(mode: Mode) -> None:
    sizes = [("A100-80GB", 1), ("A100-80GB", 2), ("L4", 1)]
    fleet = a_fleet_of([(kind, size, "east", "") for kind, size in sizes])
    # This shuffle turns the order of the names round.
    is_the_same_for_other_names(fleet, small(AlgorithmType.GRPO, mode), random.Random(4))


@pytest.mark.slow
@settings(max_examples=4)
@given(fleet=FLEETS, job=LIMITED_JOBS, order=st.randoms(use_true_random=False))
def test_names_change_nothing_for_many_jobs(
    fleet: ClusterSnapshot, job: JobSpec, order: random.Random
) -> None:
    is_the_same_for_other_names(fleet, job, order)


def is_the_same_for_other_names(fleet: ClusterSnapshot, job: JobSpec, order: random.Random) -> None:
    named = PlanCase(fleet, job).plan()
    renamed = PlanCase(relabelled(fleet, order), job).plan()
    if isinstance(named, Infeasible):
        assert named == renamed
        return
    assert isinstance(renamed, Plan)
    assert renamed.prediction == named.prediction
    assert renamed.gap == named.gap


def relabelled(fleet: ClusterSnapshot, order: random.Random) -> ClusterSnapshot:
    """The same machines under other names, and all that is listed in another order."""
    names = [f"node-{number}" for number in range(len(fleet.machines))]
    order.shuffle(names)
    machines = [
        replace(machine, name=name) for machine, name in zip(fleet.machines, names, strict=True)
    ]
    kinds, links = list(fleet.gpu_kinds), list(fleet.links)
    for several in (machines, kinds, links):
        order.shuffle(several)  # type: ignore[arg-type]
    return ClusterSnapshot(gpu_kinds=tuple(kinds), machines=tuple(machines), links=tuple(links))
