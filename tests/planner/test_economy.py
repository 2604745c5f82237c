"""Plans within the tolerance: the cheapest is taken, and the fastest is named."""

from dataclasses import replace

import pytest

from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan
from hetrl_planner.plan_job import plan
from hetrl_planner.whatif.choice import choosing, names
from tests.builders import a_fleet, a_job

FLEET = a_fleet(a100=8, l4=4)


def tolerating(percent: float, **fields: object) -> JobSpec:
    job = a_job(**fields)  # type: ignore[arg-type]
    return replace(job, planning=replace(job.planning, tolerance_percent=percent))


def made(job: JobSpec) -> Plan:
    found = plan(FLEET, job, runnable_only=True, evaluations=60)
    assert isinstance(found, Plan), found
    return found


def test_tolerance_buys_a_cheaper_plan_within_it() -> None:
    fastest, taken = made(tolerating(0)), made(tolerating(40))
    assert fastest.prediction.step_seconds < taken.prediction.step_seconds
    assert taken.prediction.step_seconds <= 1.4 * fastest.prediction.step_seconds
    assert taken.prediction.dollars_per_hour < fastest.prediction.dollars_per_hour
    named = {each.summary: each.reason for each in taken.rejected}
    assert "% faster, within spec.planning.tolerancePercent" in named["fastest"]
    assert f"{fastest.prediction.dollars_per_hour:.2f} $/h" in named["fastest"]
    assert "fastest" not in {each.summary for each in fastest.rejected}


@pytest.mark.parametrize(
    ("name", "used", "trained"),
    [
        ("A100-40GB alone", {"A100-40GB"}, {"A100-40GB"}),
        ("training on L4", None, {"L4"}),
    ],
)
def test_chosen_alternative_is_planned(name: str, used: set[str] | None, trained: set[str]) -> None:
    job = choosing(tolerating(0, model="Qwen3-0.6B"), name, FLEET)
    assert job
    found = made(job)
    assert used is None or {each.gpu_kind for each in found.groups} == used
    assert found.groups[0].gpu_kinds == trained


def test_choice_is_of_the_names_that_a_plan_lists() -> None:
    assert choosing(a_job(), "L40S alone", FLEET) is None
    listed = {each.summary for each in made(tolerating(40)).rejected} - {"cheaper"}
    assert listed <= set(names(FLEET))
    assert choosing(a_job(), "fastest", FLEET) == tolerating(0)
