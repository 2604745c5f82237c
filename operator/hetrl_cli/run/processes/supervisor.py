"""The supervisor: keeps the processes of a run alive until it ends, and leaves none behind.

A ``Unit`` restarts as a whole: all training replicas form one, since a collective cannot go on
without a rank; every other process is a unit of its own. ``restart`` decides what follows an
exit. ``hetrl_cli.run.execute`` checks progress and stalls.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

from hetrl_cli.run.processes.process import Command, Process
from hetrl_cli.run.processes.restart import (
    Exit,
    Failed,
    Restart,
    RestartPolicy,
    Succeeded,
    after_exit,
)
from hetrl_core.task import Role

FOLLOW_SECONDS = 60.0
"""How long coordinator and trainer may take to end once one of them has."""

DRAIN_SECONDS = 20.0
"""How long workers may take to end once both have."""

GRACE_SECONDS = 30.0
"""Between asking a process to end and killing it, as for a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Processes that are started and restarted together."""

    name: str
    commands: tuple[Command, ...]
    role: Role

    @property
    def is_essential(self) -> bool:
        """Whether the run is over when the unit is done; workers only follow."""
        return self.role in {Role.COORDINATOR, Role.TRAINER}


@dataclass(frozen=True, slots=True)
class Stopped:
    """A signal stopped the run; its number."""

    signal: int


End = Succeeded | Failed | Stopped


def units(commands: tuple[Command, ...]) -> tuple[Unit, ...]:
    """Group processes by what dies together, in starting order."""
    alone = tuple(
        Unit(name=each.name, commands=(each,), role=each.role)
        for each in commands
        if each.role is not Role.TRAINER
    )
    trainers = tuple(each for each in commands if each.role is Role.TRAINER)
    gang = Unit(name="trainer", commands=trainers, role=Role.TRAINER)
    return (*alone, gang) if trainers else alone


class Supervisor:
    """Runs units to their end.

    waits for: exits of processes, or the caller's request to stop.
    unblocked by: coordinator and trainers ending, whom the workers follow.
    """

    def __init__(
        self,
        units: tuple[Unit, ...],
        *,
        essential: RestartPolicy,
        workers: RestartPolicy,
        announce: Callable[[str], None],
    ) -> None:
        self._units = units
        self._essential = essential
        self._workers = workers
        self._announce = announce
        self._running: set[Process] = set()
        self.is_killed = False
        """Whether every process was ended without grace, and none may start again."""

        # A job's limit is on restarts of the coordinator and the trainers together.
        self._essential_exits: list[Exit] = []

    async def run(self, stop: "asyncio.Future[End]") -> End:
        """Start every unit and return how the run ended; no process is left then."""
        async with _orphan_cleanup() as cleanup:
            tasks = {asyncio.create_task(self._keep(each, cleanup)): each for each in self._units}
            try:
                return await _end(tasks, stop)
            finally:
                # A trainer that is stopped commits its last step before it writes a checkpoint.
                await _cancel(
                    task for task, unit in tasks.items() if unit.role is not Role.COORDINATOR
                )
                await _cancel(tasks)

    def kill(self) -> None:
        """End every process at once, without grace; none is started any more."""
        self.is_killed = True
        for process in self._running:
            process.kill()

    async def _keep(self, unit: Unit, cleanup: int) -> End:
        policy = self._essential if unit.is_essential else self._workers
        exits = self._essential_exits if unit.is_essential else []
        while True:
            exits.append(newest := await self._once(unit, cleanup))
            if self.is_killed:
                return Failed(f"{newest}; ended without grace")
            match after_exit(exits, policy):
                case Succeeded() | Failed() as end:
                    return end
                case Restart(after_seconds):
                    self._announce(f"{newest}; restarting in {after_seconds:g} s")
                    await asyncio.sleep(after_seconds)

    async def _once(self, unit: Unit, cleanup: int) -> Exit:
        """Run the unit until all its processes are done, or the first of them dies."""
        async with contextlib.AsyncExitStack() as stack:
            ends = [
                asyncio.ensure_future(
                    (await stack.enter_async_context(self._started(each, cleanup))).wait()
                )
                for each in unit.commands
            ]
            for end in asyncio.as_completed(ends):
                if (newest := await end).code != 0:
                    break
        return newest

    @contextlib.asynccontextmanager
    async def _started(self, command: Command, cleanup: int) -> AsyncIterator[Process]:
        process = await Process.start(command, cleanup=cleanup)
        self._running.add(process)
        try:
            yield process
        finally:
            await process.stop(grace_seconds=GRACE_SECONDS)
            self._running.discard(process)
            with contextlib.suppress(BrokenPipeError):
                os.write(cleanup, b"-%d\n" % process.group)


async def _cancel(tasks: "Iterable[asyncio.Task[End]]") -> None:
    cancelled = [task for task in tasks if task.cancel()]
    await asyncio.gather(*cancelled, return_exceptions=True)


async def _end(tasks: "dict[asyncio.Task[End], Unit]", stop: "asyncio.Future[End]") -> End:
    essential = {task for task, unit in tasks.items() if unit.is_essential}
    pending: set[asyncio.Future[End]] = {stop, *tasks}
    timeout: float | None = None
    while left := [task for task in essential if task in pending]:
        done, pending = await asyncio.wait(
            pending, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if not done:
            names = " and ".join(sorted(tasks[task].name for task in left))
            return Failed(f"{names} did not end within {timeout:g} s of the run's end")
        for each in done:
            if not isinstance(end := each.result(), Succeeded):
                return end
        if done & essential:
            timeout = FOLLOW_SECONDS
    if followers := pending - {stop}:
        await asyncio.wait(followers, timeout=DRAIN_SECONDS)
    return Succeeded()


@contextlib.asynccontextmanager
async def _orphan_cleanup() -> AsyncIterator[int]:
    """Yield the pipe on which process groups register; when it closes, those left are ended."""
    read_end, write_end = os.pipe()
    try:
        cleanup = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hetrl_cli.run.processes.orphan_cleanup",
            stdin=read_end,
            start_new_session=True,
        )
    finally:
        os.close(read_end)
    try:
        yield write_end
    finally:
        os.close(write_end)
        await cleanup.wait()
