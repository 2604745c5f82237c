"""Planning with machines without room: whole answers of the planner, in this process."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from datetime import datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from e2e.cluster.fake_nodes import nodes
from e2e.cluster.machines import KINDS, NodePool
from hetrl_api.fleet.topology import HetRLTopology
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_core.plan.pod_sets import pod_sets
from hetrl_core.task import Role
from hetrl_operator.decide.plan.planned import refusal
from hetrl_operator.http.metrics import Metrics
from hetrl_operator.model.actions import StartPlanning
from hetrl_operator.model.observed import JobSeen
from hetrl_operator.model.parse import Body, slim_node
from hetrl_operator.model.planning import Answer, InsufficientFreeGpus
from hetrl_operator.planning.full_machines import SETTLE_SECONDS
from hetrl_operator.planning.process_pool import PlannerProcesses
from hetrl_operator.planning.request import PlanRequest
from hetrl_operator.planning.reservations import gpus_by_machine
from hetrl_operator.planning.service import Planning
from hetrl_operator.planning.worker import answer
from hetrl_operator.settings import PlannerSettings
from tests.controller.values import (
    NOW,
    a_job,
    a_job_object,
    a_plan,
    a_plan_seen,
    a_pod,
    later,
    parsed_of,
)

MACHINES = ("l4-0", "l4-1")
WORDS = "1 Insufficient nvidia.com/gpu"


class Nodes:
    """Two machines of eight L4s."""

    def nodes(self) -> Iterable[Body]:
        pools = (NodePool(name="l4", machine=KINDS["l4"], count=len(MACHINES)),)
        return [slim_node(each) for each in nodes(pools)]

    def topologies(self) -> Iterable[HetRLTopology]:
        return ()

    def fleet_version(self) -> int:
        return 1

    def fleet_changed_at(self) -> datetime:
        return NOW


class Here(PlannerProcesses):
    """The planner without a process of its own."""

    async def ask(self, asked: PlanRequest) -> Answer:
        return answer(asked)


def planning() -> Planning:
    found = Planning(
        settings=PlannerSettings(),
        fleet_view=Nodes(),
        metrics=Metrics(CollectorRegistry()),
        answered=lambda _: None,
    )
    found.processes = Here(PlannerSettings())
    return found


def fill(service: Planning, job: JobSeen, *machines: str, gpus: int = 4) -> None:
    """Let a job find machines full."""
    said = f"0/2 nodes are available: {WORDS}."
    pod = a_pod("rollout-l4-0", waiting_message=said, gpus=gpus)
    for seconds in (0.0, SETTLE_SECONDS):
        service.full_machines.observe(
            job.uid, (), dict.fromkeys(machines, (pod,)), later(seconds=seconds), is_placed=False
        )


async def answered(service: Planning, job: JobSeen, **asked: Any) -> Answer:
    service.start(job, parsed_of(job), StartPlanning(**asked))
    async with asyncio.timeout(60):
        while (found := service.seen(job, None).answer) is None:
            await asyncio.sleep(0.01)
    return found


def a_small_job(name: str = "math", *, gpus: int = 3, **spec: Any) -> JobSeen:
    return a_job(
        name=name,
        uid=f"uid-{name}",
        resources={"maxGPUs": gpus},
        **{"planning": {"timeBudgetSeconds": 1}, **spec},
    )


@pytest.mark.parametrize("full", MACHINES)
async def test_plan_avoids_a_machine_without_room_and_names_it(full: str) -> None:
    service, job = planning(), a_small_job()
    fill(service, job, full)

    plan = await answered(service, job)

    assert isinstance(plan, Plan)
    assert set(gpus_by_machine(plan)) == set(MACHINES) - {full}
    assert service.seen(job, None).left_out == (
        f"1 node left out ({full}): no room for a pod, in the scheduler's words: {WORDS}"
    )


async def test_refusal_names_machines_without_room_beside_what_jobs_hold() -> None:
    service, job, other = planning(), a_small_job(), a_small_job("other")
    assert isinstance(await answered(service, other), Plan)
    fill(service, job, *MACHINES)

    found = await answered(service, job)

    assert isinstance(found, InsufficientFreeGpus)
    assert found.held_gpus == 3
    assert refusal(found).message.startswith(
        "other jobs hold 3 GPUs; 2 nodes left out (l4-0, l4-1): no room for a pod, in the "
        f"scheduler's words: {WORDS}, and without these: "
    )


async def test_refusal_without_other_jobs_does_not_blame_them() -> None:
    service, job = planning(), a_small_job()
    fill(service, job, *MACHINES)

    found = await answered(service, job)

    assert isinstance(found, InsufficientFreeGpus)
    assert refusal(found).message.startswith("2 nodes left out (l4-0, l4-1): no room for a pod")


async def test_full_machine_gives_other_jobs_fewer_gpus() -> None:
    service, other = planning(), a_small_job("other", gpus=16)
    fill(service, a_small_job(), "l4-0", gpus=4)

    plan = await answered(service, other)

    assert isinstance(plan, Plan)
    assert gpus_by_machine(plan)["l4-0"] <= 3


async def test_full_machine_keeps_the_trainer_and_loses_the_rollouts() -> None:
    service, job = planning(), a_small_job()
    current = await answered(service, job)
    assert isinstance(current, Plan)
    (machine,) = gpus_by_machine(current)
    fill(service, job, machine)

    plan = await answered(service, job, request_id="x", current=current, keeps_trainer=True)

    assert isinstance(plan, Plan)
    places: Counter[tuple[Role, str]] = Counter()
    for pods in pod_sets(plan):
        places.update((pods.role, each) for each in pods.machines if each)
    assert {name for role, name in places if role is Role.TRAINER} == {machine}
    assert machine not in {name for role, name in places if role is Role.ROLLOUT}


@pytest.mark.parametrize(
    ("manual_plan", "is_outdated"),
    [
        pytest.param(None, True, id="a search avoids the machine from now on"),
        pytest.param(a_plan(machine="gone"), False, id="a manual plan may use it"),
    ],
)
async def test_refusal_is_outdated_once_a_machine_is_full(
    manual_plan: Plan | None, *, is_outdated: bool
) -> None:
    model = deepcopy(a_job_object()["spec"]["model"])
    model["architecture"] |= {"hiddenSize": 16384, "ffnSize": 65536, "layers": 200}
    job, service = a_small_job(gpus=16, model=model), planning()
    asked = {"request_id": "mine", "manual_plan": manual_plan} if manual_plan else {}
    assert isinstance(await answered(service, job, **asked), Infeasible)
    assert not service.seen(job, None).is_outdated

    fill(service, job, "l4-0")

    assert service.seen(job, None).is_outdated is is_outdated


def test_room_is_no_change_of_the_fleet() -> None:
    job = a_small_job()
    service, plan = planning(), a_plan_seen(job)
    before = service.fleet(job, plan, NOW)

    fill(service, job, "l4-0")

    assert service.fleet(job, plan, NOW) == before
