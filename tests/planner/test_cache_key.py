"""Jobs and fleets with equal keys have equal plans."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot, Link
from hetrl_core.job.spec import JobSpec, RolloutSpec
from hetrl_core.plan.plan import Plan
from hetrl_planner.plan_job import plan
from hetrl_planner.problem.cache_key import planning_problem
from tests.builders import a_fleet, a_job

FLEET = a_fleet(a100_80=16, l4=24)
JOB = a_job("Qwen3-0.6B", max_gpus=4, max_prompt_tokens=64, max_response_tokens=64)


def without_machines(fleet: ClusterSnapshot, *names: str) -> ClusterSnapshot:
    left = tuple(each for each in fleet.machines if each.name not in names)
    return replace(fleet, machines=left)


@cache
def planned(fleet: ClusterSnapshot, job: JobSpec) -> Plan:
    found = plan(fleet, job, runnable_only=True, evaluations=20)
    assert isinstance(found, Plan)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda job: replace(job, name="another", namespace="elsewhere"),
        lambda job: replace(job, training=replace(job.training, learning_rate=1e-5, seed=7)),
        lambda job: replace(job, training=replace(job.training, steps=7)),
        lambda job: replace(job, data=replace(job.data, prompts="other.jsonl")),
    ],
)
def test_training_fields_leave_the_cache_key_unchanged(
    change: Callable[[JobSpec], JobSpec],
) -> None:
    other = change(JOB)

    assert planning_problem(FLEET, other).key == planning_problem(FLEET, JOB).key
    assert planned(FLEET, other) == planned(FLEET, JOB)


@pytest.mark.parametrize(
    "change",
    [
        lambda job: replace(job, resources=replace(job.resources, max_gpus=3)),
        lambda job: replace(job, rollout=RolloutSpec(replicas=2)),
        lambda job: replace(job, planning=replace(job.planning, seed=2)),
        lambda job: replace(job, data=replace(job.data, max_response_tokens=128)),
        lambda job: replace(job, algorithm=replace(job.algorithm, max_staleness=4)),
        lambda job: replace(job, training=replace(job.training, checkpoint_every_steps=1)),
    ],
)
def test_planning_fields_change_the_cache_key(
    change: Callable[[JobSpec], JobSpec],
) -> None:
    assert planning_problem(FLEET, change(JOB)).key != planning_problem(FLEET, JOB).key


@pytest.mark.slow
def test_result_is_moved_to_the_machines_of_the_next_request() -> None:
    """As a new search would: only names differ."""
    later = without_machines(FLEET, "a100-80gb-0", "l4-0", "l4-1")
    first, second = planning_problem(FLEET, JOB), planning_problem(later, JOB)
    assert first.key == second.key

    assert second.plan_from(planned(FLEET, JOB), first) == planned(later, JOB)


def test_kinds_and_links_of_others_are_no_other_question() -> None:
    alone = without_machines(FLEET, *(each.name for each in FLEET.machines if "l4" in each.name))
    link = Link(source="elsewhere", target="elsewhere", bytes_per_second=1e9, latency_seconds=1e-3)
    kinds = tuple(each for each in FLEET.gpu_kinds if "L4" not in each.name)
    assert kinds != FLEET.gpu_kinds

    assert (
        planning_problem(alone, JOB).key
        == planning_problem(replace(alone, gpu_kinds=kinds), JOB).key
    )
    assert (
        planning_problem(FLEET, JOB).key == planning_problem(replace(FLEET, links=(link,)), JOB).key
    )
    assert planned(alone, JOB) == planned(replace(alone, gpu_kinds=kinds), JOB)


def test_fleets_that_differ_for_a_job_are_other_questions() -> None:
    small = replace(
        FLEET,
        machines=tuple(replace(each, num_gpus=min(each.num_gpus, 3)) for each in FLEET.machines),
    )

    assert planning_problem(small, JOB).key != planning_problem(FLEET, JOB).key
