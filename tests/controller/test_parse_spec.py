"""The cache of parsed specs: one object while it is referenced, and nothing after that."""

import gc
from dataclasses import replace
from importlib import import_module
from weakref import ref

import pytest

from hetrl_core.plan.pod_sets import pod_sets
from hetrl_core.task import Role
from hetrl_operator.model import parse
from hetrl_operator.model.observed import JobSeen
from hetrl_operator.render import Deployment, digests
from tests.controller.values import SETTINGS, a_job_object, a_plan, a_plan_seen, parsed_of

# The package has a function of that name.
DIGESTS = import_module("hetrl_operator.render.digests")


def a_deployment(job: JobSeen) -> Deployment:
    plan = a_plan()
    return Deployment(
        job=job,
        parsed=parsed_of(job),
        plan=a_plan_seen(job, plan),
        sets=pod_sets(plan),
        running=frozenset(Role),
        settings=SETTINGS,
    )


def test_job_whose_status_changes_is_parsed_once() -> None:
    first = parse.job_seen(a_job_object())
    later = parse.job_seen({**a_job_object(), "status": {"phase": "Running"}})

    assert later.status != first.status
    assert later.parsed is first.parsed


def test_spec_change_is_parsed_again() -> None:
    first = parse.job_seen(a_job_object())
    second = parse.job_seen(a_job_object(training={"steps": 11}))

    assert parsed_of(second).written.training.steps == 11
    assert parsed_of(first).written.training.steps != 11


def test_stored_job_with_groups_of_one_is_still_read() -> None:
    found = parse.job_seen(a_job_object(algorithm={"groupSize": 1, "globalBatchSize": 64}))

    assert parsed_of(found).spec.algorithm.group_size == 1


def test_unreferenced_job_leaves_nothing_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered: dict[int, object] = {}
    monkeypatch.setattr(DIGESTS, "_remembered", remembered)
    job = parse.job_seen(a_job_object(training={"steps": 12}))
    parsed = ref(parsed_of(job))
    digests(a_deployment(job))
    assert len(remembered) == 1

    del job
    # Rounds end on their own: nothing may wait for the collector.
    gc.disable()
    try:
        assert parsed() is None
        assert not remembered
    finally:
        gc.enable()


def test_job_that_is_replanned_often_has_few_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered: dict[int, dict[object, object]] = {}
    monkeypatch.setattr(DIGESTS, "_remembered", remembered)
    deployment = a_deployment(parse.job_seen(a_job_object()))

    for number in range(20):
        digests(replace(deployment, plan=replace(deployment.plan, uid=f"plan-{number}")))

    (known,) = remembered.values()
    assert len(known) <= 4
