"""What is done to runs, a case each: a run, what befalls it, and what came of it."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.proof.kill.arrangement import BATCH_SIZE, GROUP_SIZE, MAX_STALENESS, Work, arrange
from bench.proof.kill.keeper import HungError, Keeper, left_behind
from bench.proof.kill.lineage import violations
from bench.proof.kill.story import Story
from bench.proof.kill.strikes import Strike, strikes
from hetrl_core.task import Role

QUIET_SECONDS = 150.0
"""How long a journal may stand still before a run counts as hung."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run and what is done to it."""

    name: str
    seed: int
    work: Work
    num_strikes: int = 0


async def play(case: Case, out: Path, claim: Path) -> dict[str, Any]:
    """Run a case to its end; return its record."""
    folder, commands = arrange(out, claim, case.work)
    story = Story(batch_size=BATCH_SIZE, max_staleness=MAX_STALENESS)
    keeper = Keeper(folder, commands, story)
    started = time.monotonic()
    hung = ""
    async with keeper.running():
        try:
            for strike in strikes(case.seed, case.num_strikes):
                await _deal(keeper, strike)
            await keeper.until_over(quiet_seconds=QUIET_SECONDS)
        except HungError as error:
            hung = str(error)
    return _record(case, keeper, hung=hung, wall_seconds=time.monotonic() - started)


async def _deal(keeper: Keeper, strike: Strike) -> None:
    """Wait for a strike's moment, and strike."""
    wanted = keeper.story.num_commits + strike.after_versions
    await keeper.until(
        lambda: keeper.story.num_commits >= wanted,
        what=f"{strike.after_versions} versions before a strike",
        seconds=QUIET_SECONDS,
    )
    await asyncio.sleep(strike.delay_seconds)
    group = keeper.of_role(strike.role)
    watched = group[strike.pick % len(group)]
    await keeper.until(
        lambda: watched.process is not None, what="a process to strike", seconds=30.0
    )
    if not keeper.is_over and watched.process is not None:
        keeper.strike(watched, strike.number)


def _record(case: Case, keeper: Keeper, *, hung: str, wall_seconds: float) -> dict[str, Any]:
    story = keeper.story
    if not hung:
        story.finish(steps=case.work.steps, group_size=GROUP_SIZE)
    (trainer,) = keeper.of_role(Role.TRAINER)
    trainer_log = keeper.folder.logs / f"{trainer.command.name}.log"
    found = [
        *story.violations,
        *violations(trainer_log.read_text(errors="replace").splitlines()),
        *([f"hung: {hung}"] if hung else []),
        *(f"left behind: {each}" for each in left_behind(keeper.folder)),
        *([f"gave up: {keeper.failure}"] if keeper.failure else []),
    ]
    return {
        "case": case.name,
        "seed": case.seed,
        "wall_seconds": wall_seconds,
        "ending": story.ending,
        "steps": story.version,
        "commits": story.num_commits,
        "lost_steps": story.lost_steps,
        "kills": [
            {
                "process": k.process,
                "role": str(k.role),
                "signal": k.number,
                "version": k.version,
                "point": k.point,
            }
            for k in keeper.kills
        ],
        "recoveries": [[str(role), seconds] for role, seconds in keeper.recoveries],
        "staleness_max": max((age for v in story.versions for age in v.staleness), default=0),
        "rewards": [v.reward_mean for v in story.versions],
        "violations": found,
    }
