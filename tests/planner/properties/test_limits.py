"""Memory, counts, budget and bound are never exceeded."""

import pytest
from hypothesis import given, settings

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.algorithm import AlgorithmSpec, Mode
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan
from tests.builders import a_fleet, a_job, both
from tests.planner.properties.cases import FLEETS, LIMITED_JOBS, SMALL_FLEETS, PlanCase
from tests.planner.properties.limits import footprints, keeps_every_limit


@pytest.mark.slow
@settings(max_examples=5)
@given(fleet=SMALL_FLEETS, job=LIMITED_JOBS)
def test_auto_keeps_every_limit_or_gives_reasons(fleet: ClusterSnapshot, job: JobSpec) -> None:
    keeps_every_limit(PlanCase(fleet, job))


@pytest.mark.slow
@settings(max_examples=12)
@given(fleet=FLEETS, job=LIMITED_JOBS)
def test_auto_keeps_the_limits_of_many_jobs(fleet: ClusterSnapshot, job: JobSpec) -> None:
    keeps_every_limit(PlanCase(fleet, job))


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    "fleet",
    [
        pytest.param(a_fleet(a100_80=1, l40s=1), id="one of each"),
        pytest.param(
            both(a_fleet(a100=2, region="east"), a_fleet(l4=2, region="west")), id="two regions"
        ),
    ],
)
@pytest.mark.slow
def test_pipeline_of_two_kinds_keeps_every_limit(fleet: ClusterSnapshot, mode: Mode) -> None:
    algorithm = AlgorithmSpec(
        mode=mode, max_staleness=0 if mode is Mode.SYNC else 2, kl_coefficient=0.01
    )
    case = PlanCase(fleet, a_job("Qwen3-4B", algorithm=algorithm))
    found = case.plan()
    assert isinstance(found, Plan)
    assert any(len(group.gpu_kinds) > 1 for group in found.groups)
    assert any(len(tasks) > 1 for tasks in footprints(case, found).values())
    keeps_every_limit(case)
