"""Execution of a run: supervision, display, and every deadline."""

import asyncio
import contextlib
import math
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hetrl_cli.run.display.panel import Moment
from hetrl_cli.run.display.progress import Progress, Progresses
from hetrl_cli.run.display.screen import Screen
from hetrl_cli.run.processes.process import Command
from hetrl_cli.run.processes.restart import Failed, RestartPolicy, Succeeded
from hetrl_cli.run.processes.supervisor import End, Stopped, Supervisor, units

_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a run may take, and how often its processes may die."""

    max_restarts: int
    """Of the coordinator and the trainer together."""

    window_seconds: float = math.inf
    """Only restarts of the last so many seconds count."""

    stall_seconds: float
    """Without a finished trajectory or step for so long, the run ends."""

    active_seconds: float | None
    """Longest run from now on; None: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended, and what happened on the way."""

    end: End
    wall_seconds: float
    events: tuple[str, ...]
    """What had to be restarted, in words."""

    is_killed: bool = False
    """Whether the processes were ended without grace, as a second signal asks."""


async def execute(
    commands: tuple[Command, ...],
    *,
    progresses: Progresses,
    screen: Screen,
    start: Moment,
    limits: Limits,
) -> Ended:
    """Run the processes to the end, showing how it goes from its start; none is left then.

    waits for: the supervisor, which ends with its processes or at our request.
    unblocked by: a signal, the stall limit or the run's own deadline.
    """
    started = time.monotonic()
    events: list[str] = []
    stop: asyncio.Future[End] = asyncio.get_running_loop().create_future()
    supervisor = Supervisor(
        units(commands),
        essential=RestartPolicy(
            max_restarts=limits.max_restarts, window_seconds=limits.window_seconds
        ),
        workers=RestartPolicy(),
        announce=events.append,
    )
    watch = _Watch(progresses, screen, start, limits, events)
    with _stopped_by_signals(stop, supervisor), screen:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(watch.run(stop))
            end = await supervisor.run(stop)
            watching.cancel()
        watch.update()
    return Ended(
        end=_as_reported(end, progresses.newest()),
        wall_seconds=time.monotonic() - started,
        events=tuple(events),
        is_killed=supervisor.is_killed,
    )


class _Watch:
    """Polls the progress of a run, shows it, and detects stalls."""

    def __init__(
        self,
        progresses: Progresses,
        screen: Screen,
        start: Moment,
        limits: Limits,
        events: list[str],
    ) -> None:
        self._progresses = progresses
        self._screen = screen
        self._start = start
        self._limits = limits
        self._events = events
        self._started = self._moved = time.monotonic()
        self._last: Progress | None = None
        self._most_processes = 0

    async def run(self, stop: "asyncio.Future[End]") -> None:
        """Poll until cancelled; stop the run when a limit is passed."""
        while True:
            self.update()
            reason = self._limit_passed()
            if reason and not stop.done():
                stop.set_result(Failed(reason))
            await asyncio.sleep(_POLL_SECONDS)

    def update(self) -> None:
        """Read the run's progress once and show it."""
        progress, now = self._progresses.newest(), time.monotonic()
        num_processes = len(progress.processes) if progress else 0
        if num_processes > self._most_processes or _work_done(progress) != _work_done(self._last):
            self._moved = now
        self._most_processes = max(self._most_processes, num_processes)
        self._last = progress
        steps = self._progresses.steps()
        self._screen.show(
            replace(
                self._start,
                elapsed_seconds=now - self._started,
                progress=progress,
                rewards=[step.reward_mean for step in steps],
                rates=[step.samples_per_second for step in steps],
                events=tuple(self._events),
            )
        )

    def _limit_passed(self) -> str:
        now, limits = time.monotonic(), self._limits
        if limits.active_seconds is not None and now - self._started > limits.active_seconds:
            return (
                f"DeadlineExceeded: the run took longer than spec.activeDeadlineSeconds "
                f"({limits.active_seconds:g} s)"
            )
        if now - self._moved > limits.stall_seconds:
            waiting = self._last.waiting_for if self._last else "the coordinator has not started"
            return f"Stalled: nothing moved for {limits.stall_seconds:g} s: {waiting}"
        return ""


def _work_done(progress: Progress | None) -> tuple[object, ...]:
    """Return what changes when work is finished.

    Work that is begun does not count, nor a process that comes back: what fails each time is begun
    again and again.
    """
    return (progress.step, progress.buffered, progress.notices) if progress else ()


def _as_reported(end: End, progress: Progress | None) -> End:
    """Return the coordinator's outcome: it may fail a run whose processes all succeeded."""
    if isinstance(end, Succeeded) and progress and progress.outcome == "Failed":
        return Failed(progress.message)
    return end


@contextlib.contextmanager
def _stopped_by_signals(stop: "asyncio.Future[End]", supervisor: Supervisor) -> Iterator[None]:
    def handle(number: signal.Signals) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        if stop.done():
            supervisor.kill()  # asked twice: without grace
        else:
            stop.set_result(Stopped(number))

    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _leave_terminal() -> None:
    """Write to nowhere from now on: the terminal is gone, and each write to it would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        if os.isatty(descriptor):
            os.dup2(nowhere, descriptor)
    os.close(nowhere)
