"""A planner's process that fails while it has nothing to do: the next question must not wait."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from pebble.pool.process import PoolManager

from hetrl_core.plan.plan import Plan
from hetrl_operator.model.planning import Answer, PlannerError
from hetrl_operator.model.reasons import Reason
from hetrl_operator.planning.process_pool import PlannerProcesses
from hetrl_operator.planning.request import PlanRequest
from hetrl_operator.settings import PlannerSettings
from tests.builders import a_fleet
from tests.controller.values import a_job, parsed_of

pytestmark = pytest.mark.slow

DEADLINE_SECONDS = 120


def the_planner() -> int:
    """Return the one worker's process."""
    (planner,) = multiprocessing.active_children()
    assert planner.pid
    return planner.pid


@pytest.fixture
async def processes() -> AsyncIterator[PlannerProcesses]:
    found = PlannerProcesses(PlannerSettings(grace_seconds=15))
    yield found
    await found.close()
    assert multiprocessing.active_children() == []


async def answer_of(processes: PlannerProcesses) -> Answer:
    job = parsed_of(a_job(planning={"timeBudgetSeconds": 1}, resources={"maxGPUs": 2})).spec
    fleet = a_fleet(l4=8)
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await processes.ask(PlanRequest(job=job, free=fleet, fleet=fleet, left_out=()))


async def test_process_that_hangs_before_it_takes_a_question_is_replaced(
    processes: PlannerProcesses,
) -> None:
    assert isinstance(await answer_of(processes), Plan)
    os.kill(the_planner(), signal.SIGSTOP)

    found = await answer_of(processes)

    assert isinstance(found, PlannerError)
    assert found.reason == Reason.SOLVER_TIMEOUT
    assert "stopped after 17 s" in found.message
    assert isinstance(await answer_of(processes), Plan)


async def test_idle_process_that_dies_is_replaced(
    processes: PlannerProcesses,
) -> None:
    assert isinstance(await answer_of(processes), Plan)
    os.kill(the_planner(), signal.SIGKILL)

    found = await answer_of(processes)

    # Whether the death or the question is seen first, is the system's choice.
    if not isinstance(found, Plan):
        assert isinstance(found, PlannerError)
        assert found.reason == Reason.PLANNER_FAILED
        assert "before it took" in found.message
        assert isinstance(await answer_of(processes), Plan)


async def test_request_that_a_broken_pool_lost_ends_as_a_death(
    processes: PlannerProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(await answer_of(processes), Plan)
    # A pool looks after what it has taken up; here it breaks before it does.
    monkeypatch.setattr(PoolManager, "schedule", lambda *_: None)
    asked = asyncio.create_task(answer_of(processes))
    await asyncio.sleep(0)
    os.kill(the_planner(), signal.SIGKILL)

    found = await asked

    assert isinstance(found, PlannerError)
    assert found.reason == Reason.PLANNER_FAILED
    assert "before it took" in found.message
    monkeypatch.undo()
    assert isinstance(await answer_of(processes), Plan)


def test_operators_own_process_holds_no_solver() -> None:
    loaded = "import sys, hetrl_operator.__main__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], check=True, capture_output=True)
    solvers = {"numpy", "pulp", "highspy", "networkx", "hetrl_planner.plan_job"}
    assert solvers.isdisjoint(done.stdout.decode().split())
