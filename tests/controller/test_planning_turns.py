"""Many jobs that ask at once, with a real planner in a process of its own."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from e2e.cluster.fake_nodes import nodes
from e2e.cluster.machines import KINDS, NodePool
from hetrl_api.fleet.topology import HetRLTopology
from hetrl_core.plan.plan import Plan
from hetrl_operator.http.metrics import Metrics
from hetrl_operator.model.actions import StartPlanning
from hetrl_operator.model.observed import JobSeen
from hetrl_operator.model.parse import Body, JobKey, slim_node
from hetrl_operator.model.planning import Answer, InsufficientFreeGpus
from hetrl_operator.planning.process_pool import PlannerProcesses
from hetrl_operator.planning.request import PlanRequest
from hetrl_operator.planning.service import Planning
from hetrl_operator.settings import PlannerSettings
from tests.controller.values import a_job, parsed_of

pytestmark = pytest.mark.slow

MACHINES = 3
GPUS = 8 * MACHINES
ANSWER_SECONDS = 120


class Nodes:
    """Three machines of eight L4s."""

    def nodes(self) -> Iterable[Body]:
        pools = (NodePool(name="l4", machine=KINDS["l4"], count=MACHINES),)
        return [slim_node(each) for each in nodes(pools)]

    def topologies(self) -> Iterable[HetRLTopology]:
        return ()

    def fleet_version(self) -> int:
        return 1


class Counting(PlannerProcesses):
    """Real processes, and what they were asked."""

    asked: list[PlanRequest]

    async def ask(self, asked: PlanRequest) -> Answer:
        self.asked.append(asked)
        return await super().ask(asked)


@dataclass
class Desk:
    """Jobs that ask, and who has been answered."""

    planning: Planning
    processes: Counting
    waiting: dict[JobKey, asyncio.Event] = field(default_factory=dict)

    async def answers(self, *jobs: JobSeen) -> list[Answer]:
        """Have jobs planned at once."""
        for job in jobs:
            self.waiting[job.namespace, job.name] = asyncio.Event()
            self.planning.start(job, parsed_of(job), StartPlanning())
        async with asyncio.timeout(ANSWER_SECONDS):
            for each in jobs:
                await self.waiting[each.namespace, each.name].wait()
        found = [self.planning.seen(each, None).answer for each in jobs]
        return [each for each in found if each]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    planning = Planning(
        settings=PlannerSettings(),
        fleet_view=Nodes(),
        metrics=Metrics(CollectorRegistry()),
        answered=lambda key: found.waiting[key].set(),
    )
    processes = Counting(PlannerSettings())
    processes.asked = []
    planning.processes = processes
    found = Desk(planning, processes)
    yield found
    await planning.close()


def jobs_of(number: int, gpus: int) -> list[JobSeen]:
    """A sweep: alike but for their learning rates."""
    return [
        a_job(
            name=f"job-{each}",
            uid=f"uid-{each}",
            resources={"maxGPUs": gpus},
            training={"steps": 10, "learningRate": (1 + each) * 1e-7},
        )
        for each in range(number)
    ]


async def test_sweep_is_planned_once_and_no_gpu_is_promised_twice(desk: Desk) -> None:
    answers = await desk.answers(*jobs_of(GPUS // 4, 4))

    taken: Counter[str] = Counter()
    for each in answers:
        assert isinstance(each, Plan)
        taken.update(
            share.machine
            for group in each.groups
            for replica in group.replicas
            for share in replica.shares
            for _ in range(share.num_gpus)
        )
    assert dict(taken) == {"l4-0": 8, "l4-1": 8, "l4-2": 8}
    assert len(desk.processes.asked) == 1


async def test_jobs_without_free_gpus_are_refused_by_one_request(desk: Desk) -> None:
    jobs = jobs_of(GPUS // 4 + 3, 4)

    *planned, _, _, _ = answers = await desk.answers(*jobs)

    assert all(isinstance(each, Plan) for each in planned)
    assert [each.held_gpus for each in answers if isinstance(each, InsufficientFreeGpus)] == [
        GPUS
    ] * 3
    assert len(desk.processes.asked) == 2

    desk.planning.reservations.release(jobs[0].uid)
    (late,) = await desk.answers(jobs[-1])
    assert isinstance(late, Plan)
