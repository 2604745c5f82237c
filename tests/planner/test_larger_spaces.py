"""Larger search spaces: what a smaller one holds is never missed by more than a hair."""

from dataclasses import replace

import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan
from hetrl_planner.plan_job import plan
from hetrl_planner.presets.fleets import preset
from tests.builders import a_job

PRESETS = ["single-region", "multi-region-hybrid", "multi-country", "multi-continent"]


def rate(fleet: ClusterSnapshot, job: JobSpec, *, runnable_only: bool = True) -> float:
    exact = replace(job, planning=replace(job.planning, tolerance_percent=0.0))
    found = plan(fleet, exact, runnable_only=runnable_only)
    return found.prediction.samples_per_second if isinstance(found, Plan) else 0.0


def a_preset(name: str) -> ClusterSnapshot:
    found = preset(name)
    assert isinstance(found, ClusterSnapshot), found
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_preview_is_no_slower_than_runnable_plan(name: str) -> None:
    fleet, job = a_preset(name), a_job("Qwen3-8B")
    # The play-off chooses among finalists by played time, so predictions may differ a little.
    assert rate(fleet, job, runnable_only=False) >= 0.97 * rate(fleet, job)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_fleet_is_no_slower_than_one_kind_or_region(name: str) -> None:
    fleet, job = a_preset(name), a_job("Qwen3-8B")
    kinds = {each.gpu_kind for each in fleet.machines}
    regions = {each.region for each in fleet.machines}
    parts = [
        tuple(each for each in fleet.machines if each.gpu_kind == kind) for kind in sorted(kinds)
    ] + [
        tuple(each for each in fleet.machines if each.region == region)
        for region in sorted(regions)
    ]
    whole = rate(fleet, job)
    rates = [rate(replace(fleet, machines=part), job) for part in parts]
    assert whole >= 0.97 * max(rates)
