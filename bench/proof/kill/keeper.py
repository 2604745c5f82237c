"""Keeps a run's processes going as a StatefulSet does, whatever ends them, and follows its journal.

A process that ends is started again at once, until the coordinator has ended well or somebody says
that starting again is useless. Each end, each start and each entry of the journal is noted with its
time. When to strike is the cases' business.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace

from bench.proof.kill.starter import Started, Starter
from bench.proof.kill.story import Story
from bench.proof.kill.tail import JournalTail
from hetrl_cli.run.processes.process import Command
from hetrl_cli.run.processes.restart import Exit
from hetrl_cli.run.processes.supervisor import DRAIN_SECONDS, FOLLOW_SECONDS
from hetrl_cli.run.setup.folder import RunFolder
from hetrl_core.launch import TERMINAL_EXIT_CODE
from hetrl_core.task import Role
from hetrl_runtime.process.faults import DIE_AT
from hetrl_runtime.wire import hetrl_pb2 as pb

RESTART_SECONDS = 0.1
_LOOK_SECONDS = 0.02


class HungError(Exception):
    """Something that must happen did not, within its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One process that was struck down."""

    process: str
    role: Role
    number: int
    """The signal's."""

    at_seconds: float
    version: int
    point: str = ""
    """Where it killed itself, if it was not struck from outside."""


@dataclass(slots=True, kw_only=True)
class Watched:
    """One process and how it fares."""

    command: Command
    process: Started | None = None
    exits: list[Exit] = field(default_factory=list)
    dies_at: deque[str] = field(default_factory=deque)
    """Points at which its next starts kill themselves, one each, as ``faults`` reads them."""

    was_asked_to_end: bool = False


class Keeper:
    """One run's processes, and what its journal says so far."""

    def __init__(
        self,
        folder: RunFolder,
        commands: tuple[Command, ...],
        *,
        starter: Starter,
        story: Story,
        tail: JournalTail,
    ) -> None:
        """Take up a run; a story and a tail of it go on where an earlier keeper left them."""
        self._starter = starter
        self.story = story
        self.tail = tail
        self.folder = folder
        self.watched = {each.name: Watched(command=each) for each in commands}
        self.kills: list[Kill] = []
        self.recoveries: list[tuple[Role, float]] = []
        self.failure: Exit | None = None
        """The exit after which no process is started again."""

        self.groups: list[int] = []
        """Process groups of all that was started."""

        self.held: dict[str, asyncio.Event] = {}
        """Processes that are not started again before their event is set."""

        (self._coordinator,) = self.of_role(Role.COORDINATOR)
        self._waiting: list[tuple[Kill, Callable[[pb.JournalEntry], bool]]] = []
        self._moved_at = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, well or not."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                # What goes wrong in here must not look like a run that stands still.
                task.result()
        ended_well = any(each.code == 0 for each in self._coordinator.exits)
        return ended_well or self.failure is not None

    def of_role(self, role: Role) -> list[Watched]:
        """Return the processes of a role."""
        return [each for each in self.watched.values() if each.command.role is role]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep everything going inside; nothing runs afterwards."""
        self._tasks = [asyncio.create_task(self._keep(each)) for each in self.watched.values()]
        self._tasks.append(asyncio.create_task(self._follow()))
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for each in self.watched.values():
                if each.process is not None:
                    await each.process.stop(grace_seconds=10.0)
            self.read()

    async def until(self, condition: Callable[[], bool], *, what: str, seconds: float) -> None:
        """Wait for something, or for the run's end.

        Raises:
            HungError: neither came in time.
        """
        ends_at = time.monotonic() + seconds
        while not condition() and not self.is_over:
            if time.monotonic() > ends_at:
                raise HungError(
                    f"{what}: not within {seconds:g} s, at version {self.story.version}"
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def until_over(self, *, quiet_seconds: float) -> None:
        """Wait for the end of the run, of its trainer, and for a while of its workers.

        Raises:
            HungError: the journal stood still, or the trainer did not end.
        """
        while not self.is_over:
            if time.monotonic() - self._moved_at > quiet_seconds:
                raise HungError(
                    f"nothing moved for {quiet_seconds:g} s, at version {self.story.version}"
                )
            await asyncio.sleep(_LOOK_SECONDS)
        if self.failure:
            return
        await self._until_ended(Role.TRAINER, seconds=FOLLOW_SECONDS)
        # One that was killed as the run ended finds no coordinator; its supervisor stops it.
        with contextlib.suppress(HungError):
            for role in (Role.ROLLOUT, Role.INFERENCE):
                await self._until_ended(role, seconds=DRAIN_SECONDS)

    async def _until_ended(self, role: Role, *, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        while left := [each for each in self.of_role(role) if each.process is not None]:
            if time.monotonic() > ends_at:
                raise HungError(f"{left[0].command.name} did not end with the run")
            await asyncio.sleep(_LOOK_SECONDS)

    def strike(self, watched: Watched, number: signal.Signals) -> None:
        """Send a signal to a process that runs."""
        assert watched.process is not None
        self._note_kill(watched, number)
        # Of those that train together one that stops lets the others go as well.
        gang = self.of_role(Role.TRAINER) if watched.command.role is Role.TRAINER else [watched]
        for each in gang:
            each.was_asked_to_end |= number == signal.SIGTERM
        with contextlib.suppress(ProcessLookupError):
            # It alone and not its group, as the kernel or a kubelet does.
            os.kill(watched.process.group, number)

    def _note_kill(self, watched: Watched, number: int, *, point: str = "") -> None:
        """Note a death, and wait for the process to be of use again."""
        self.read()
        kill = Kill(
            process=watched.command.name,
            role=watched.command.role,
            number=number,
            at_seconds=time.monotonic(),
            version=self.story.version,
            point=point,
        )
        self.kills.append(kill)
        self._waiting.append((kill, _sign_of_life(watched.command)))

    async def _keep(self, watched: Watched) -> None:
        while not self.is_over:
            if hold := self.held.get(watched.command.name):
                await hold.wait()
            newest = await self._once(watched)
            if newest.code == TERMINAL_EXIT_CODE:
                self.failure = newest
            if newest.code == 0 and not watched.was_asked_to_end:
                return
            watched.was_asked_to_end = False
            await asyncio.sleep(RESTART_SECONDS)

    async def _once(self, watched: Watched) -> Exit:
        """Run a process to its end, and note how that came."""
        command, point = watched.command, watched.dies_at[0] if watched.dies_at else ""
        environment = {**command.environment, **({DIE_AT: point} if point else {})}
        watched.process = await self._starter.start(replace(command, environment=environment))
        self.groups.append(watched.process.group)
        newest = await watched.process.wait()
        watched.process = None
        watched.exits.append(newest)
        if point and newest.code == -signal.SIGKILL:
            self._note_kill(watched, signal.SIGKILL, point=point)
            watched.dies_at.popleft()
        return newest

    async def _follow(self) -> None:
        while True:
            self.read()
            await asyncio.sleep(_LOOK_SECONDS)

    def read(self) -> None:
        """Take in what the journal has got since the last time."""
        now = time.monotonic()
        for entry in self.tail.read():
            self._moved_at = now
            self.story.take(entry, at_seconds=now)
            for kill, is_alive in tuple(self._waiting):
                if is_alive(entry):
                    self.recoveries.append((kill.role, now - kill.at_seconds))
                    self._waiting.remove((kill, is_alive))


def _sign_of_life(command: Command) -> Callable[[pb.JournalEntry], bool]:
    match command.role:
        case Role.TRAINER:
            return lambda entry: entry.WhichOneof("entry") == "committed"
        case Role.ROLLOUT:
            return lambda entry: entry.lease_given.process == command.name
        case Role.INFERENCE:
            return lambda entry: entry.WhichOneof("entry") == "accepted"
        case Role.COORDINATOR:
            return lambda _: True


def left_behind(groups: Iterable[int], *, timeout_seconds: float = 10.0) -> list[int]:
    """Return the process groups that still have processes in them.

    Waits for those that were killed a moment ago, and that init has still to bury.
    """
    ends_at = time.monotonic() + timeout_seconds
    left = [group for group in groups if _has_members(group)]
    while left and time.monotonic() < ends_at:
        time.sleep(_LOOK_SECONDS)
        left = [group for group in left if _has_members(group)]
    return left


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
