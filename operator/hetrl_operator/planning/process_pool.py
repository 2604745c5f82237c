"""The planner's worker processes: a request goes in, an answer or an error comes out.

The event loop never computes a plan. ``service`` makes the requests and uses the answers.
"""

import asyncio
import logging
import multiprocessing
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from pebble import ProcessExpired, ProcessPool

from hetrl_operator.model.planning import Answer, PlannerError
from hetrl_operator.model.reasons import Reason
from hetrl_operator.planning.request import PlanRequest
from hetrl_operator.planning.worker_entry import answer, limit_memory, wake
from hetrl_operator.settings import PlannerSettings

log = logging.getLogger(__name__)

_TASKS_PER_PROCESS = 200
"""Plans after which a worker is replaced: solvers do not return all their memory."""

_LOOK_SECONDS = 1.0
"""Interval of the checks whether the pool has broken and lost a request."""


@dataclass(slots=True)
class PlannerProcesses:
    """Worker processes, started on the first request and restarted when they die."""

    settings: PlannerSettings
    _pool: ProcessPool | None = None

    def wake(self) -> None:
        """Start a process before the first request: its imports take seconds."""
        self._workers().schedule(wake)

    async def ask(self, request: PlanRequest) -> Answer:
        """Return the planner's answer, or why there is none."""
        timeout = 2 * request.job.planning.time_budget_seconds + self.settings.grace_seconds
        pool = self._workers()
        future = pool.schedule(answer, args=(request,), timeout=timeout)
        try:
            # The pool's timeout starts when a process takes the request: a process that hangs
            # before that would never be stopped.
            async with asyncio.timeout(timeout + self.settings.grace_seconds):
                found = await _answer(future, pool)
        except TimeoutError:
            if future.cancelled():
                await self._replace(pool)
            text = f"the planner was stopped after {timeout:g} s without a plan"
            return PlannerError(reason=Reason.SOLVER_TIMEOUT, message=text)
        except ProcessExpired as error:
            text = f"the planner's process died with exit code {error.exitcode}"
            return PlannerError(reason=Reason.PLANNER_FAILED, message=text)
        except BrokenProcessPool:
            text = "the planner's process died before it took the request"
            return PlannerError(reason=Reason.PLANNER_FAILED, message=text)
        except MemoryError:
            text = f"the planner needed more than {self.settings.memory_mib} MiB"
            return PlannerError(reason=Reason.PLANNER_FAILED, message=text)
        except Exception as error:  # a planner's bug must not stop other jobs
            log.exception("planner failed: job=%s/%s", request.job.namespace, request.job.name)
            return PlannerError(reason=Reason.PLANNER_FAILED, message=repr(error))
        return found

    async def close(self) -> None:
        """Stop the processes."""
        if self._pool:
            await self._replace(self._pool)

    async def _replace(self, pool: ProcessPool) -> None:
        """Kill a pool's processes; the next request starts a new pool."""
        if pool is not self._pool:
            return
        self._pool = None
        pool.stop()  # type: ignore[no-untyped-call]
        await asyncio.to_thread(pool.join)

    def _workers(self) -> ProcessPool:
        if self._pool is None or not self._pool.active:
            self._pool = ProcessPool(
                max_workers=self.settings.workers,
                max_tasks=_TASKS_PER_PROCESS,
                initializer=limit_memory,
                initargs=(self.settings.memory_mib,),
                # A fork would copy our event loop, sockets and threads half-way.
                context=multiprocessing.get_context("spawn"),
            )
        return self._pool


async def _answer(future: Future[Any], pool: ProcessPool) -> Answer:
    """Wait for an answer.

    Raises:
        BrokenProcessPool: the pool broke and lost the request.

    """
    answered = asyncio.wrap_future(future)
    try:
        while not answered.done():
            await asyncio.wait({answered}, timeout=_LOOK_SECONDS)
            if not (answered.done() or pool.active):
                raise BrokenProcessPool
        found: Answer = answered.result()
        return found
    finally:
        future.cancel()
