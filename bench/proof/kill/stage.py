"""One run on the stage: its folder, processes and story, through any number of resumptions."""

import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.proof.kill.arrangement import BATCH_SIZE, MAX_STALENESS, Work, arrange
from bench.proof.kill.keeper import Keeper, Kill
from bench.proof.kill.starter import Starter
from bench.proof.kill.story import Story
from bench.proof.kill.tail import JournalTail
from hetrl_cli.run.setup.folder import RunFolder
from hetrl_core.plan.pod_sets import COORDINATOR
from hetrl_core.task import Role

QUIET_SECONDS = 200.0
"""How long a journal may stand still before a run counts as hung."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """What a case works with."""

    starter: Starter
    out: Path
    claim: Path
    work: Work
    rng: random.Random
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    """What was done besides kills, by name."""

    notes: list[str] = field(default_factory=list)
    """What came of it, for the page."""

    violations: list[str] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    recoveries: list[tuple[Role, float]] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    """Process groups of all that was started."""

    story: Story = field(
        default_factory=lambda: Story(batch_size=BATCH_SIZE, max_staleness=MAX_STALENESS)
    )
    _tail: JournalTail | None = None

    @property
    def folder(self) -> RunFolder:
        """The run's."""
        return RunFolder(path=self.out.resolve())

    def arranged(self) -> Keeper:
        """Fill the folder for a new run, or for the run in it; return its supervisor."""
        resumed = self._tail is not None
        folder, commands = arrange(self.out, self.claim, self.work, resumed=resumed)
        if self._tail is None:
            self._tail = JournalTail(folder.state(f"{COORDINATOR}-0"))
        return Keeper(folder, commands, starter=self.starter, story=self.story, tail=self._tail)

    @contextlib.asynccontextmanager
    async def kept(self, keeper: Keeper | None = None) -> AsyncIterator[Keeper]:
        """Run the processes inside; wait for nothing at the end."""
        keeper = keeper or self.arranged()
        try:
            async with keeper.running():
                yield keeper
        finally:
            self.kills += keeper.kills
            self.recoveries += keeper.recoveries
            self.groups += keeper.groups

    async def to_the_end(self, keeper: Keeper) -> None:
        """Wait for the run's end, which must be a good one."""
        await keeper.until_over(quiet_seconds=QUIET_SECONDS)
        if keeper.failure:
            self.violations.append(f"gave up: {keeper.failure}")

    def expect(self, holds: bool, what: str) -> None:
        """Take note of something that must be so."""
        what = what.replace(str(self.folder.path), "RUN")
        (self.notes if holds else self.violations).append(what if holds else f"not so: {what}")

    def close(self) -> None:
        """Let go of the journal."""
        if self._tail:
            self._tail.close()
