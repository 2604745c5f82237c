"""Fault scenarios: each plays one run to its end and adds checks of its own.

``verdict`` has the checks of every run.
"""

import asyncio
import contextlib
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from bench.proof.kill.arrangement import launch_of, redirect
from bench.proof.kill.keeper import Keeper, Watched
from bench.proof.kill.relays import Relay, Wire
from bench.proof.kill.stage import QUIET_SECONDS, Stage
from bench.proof.kill.strikes import Strike, strikes
from bench.proof.kill.tail import end_of
from hetrl_core.launch import TlsFiles
from hetrl_core.task import Role
from hetrl_runtime.process.faults import Point

FaultInjector = Callable[[Stage], Coroutine[Any, Any, None]]

_COORDINATORS_POINTS = (
    *("lease-decided:9", "lease-written:9", "delivery-accepted:20", "delivery-written:20"),
    *("batch-chosen:2", "batch-sent:2", "commit-decided:2", "commit-written:2"),
    *("commit-forced:2", "commit-reported:2", "epoch-decided", "epoch-written", "epoch-replaced"),
)
_TRAINERS_POINTS = (
    *("batch-received:2", "version-trained:2", "version-published:2", "version-committed:3"),
    *("weights-sent:3", "restored", "registered", "checkpoint-copied", "checkpoint-begun"),
    *("checkpoint-model-written", "checkpoint-written", "checkpoint-flushed"),
    "checkpoint-renamed",
)
_ROLLOUTS_POINTS = (
    *("lease-received:3", "response-sampled:30", "response-scored:30"),
    *("response-acknowledged:30", "weights-fetched:2", "weights-loaded:2"),
)
_AT_THE_END = frozenset({Point.END_WRITTEN, Point.LAST_CHECKPOINT_DONE})
_DISK_MEGABYTES = 24


async def nothing(stage: Stage) -> None:
    """Let it run."""
    async with stage.kept() as keeper:
        await stage.to_the_end(keeper)


def kills(count: int) -> FaultInjector:
    """Strike so many times, as the seed says."""

    async def inject(stage: Stage) -> None:
        async with stage.kept() as keeper:
            drawn = strikes(stage.seed, count, layout=stage.work.layout)
            for strike in drawn:
                await deal(keeper, strike)
            await stage.to_the_end(keeper)

    return inject


def kills_amid_broadcasts(count: int) -> FaultInjector:
    """Strike likewise where the trainer broadcasts: each process is a member of its rounds."""

    async def inject(stage: Stage) -> None:
        await kills(count)(stage)
        went = _times_said(stage, "weights broadcast: version=")
        failed = _times_said(stage, "not broadcast: version=")
        stage.counts.update({"versions broadcast": went, "broadcasts that failed": failed})
        stage.expect(went > 0, "versions were broadcast")

    return inject


def _times_said(stage: Stage, words: str) -> int:
    logs = stage.folder.logs.glob("trainer-*.log")
    return sum(each.read_text(errors="replace").count(words) for each in logs)


async def points(stage: Stage) -> None:
    """Let each process die at each of its points, one start after the other."""
    named = {each.partition(":")[0] for each in _every_point()}
    stage.expect(named == set(Point) - _AT_THE_END, "every named point but the last two is tried")
    keeper = stage.arranged()
    for role, its_points in (
        (Role.COORDINATOR, _COORDINATORS_POINTS),
        (Role.TRAINER, _TRAINERS_POINTS),
        (Role.ROLLOUT, _ROLLOUTS_POINTS),
    ):
        keeper.of_role(role)[0].dies_at.extend(its_points)
    async with stage.kept(keeper):
        await stage.to_the_end(keeper)
    missed = [point for each in keeper.watched.values() for point in each.dies_at]
    stage.expect(not missed, f"a process died at each point, none is left: {missed}")


async def at_the_end(stage: Stage) -> None:
    """Let trainer and coordinator die where the run is all but over."""
    keeper = stage.arranged()
    (trainer,), (coordinator,) = keeper.of_role(Role.TRAINER), keeper.of_role(Role.COORDINATOR)
    trainer.dies_at.extend([f"version-committed:{stage.work.steps}", "last-checkpoint-done"])
    coordinator.dies_at.append("end-written")
    async with stage.kept(keeper):
        await stage.to_the_end(keeper)
    stage.expect(not trainer.dies_at, "the trainer died after its last commit and its last save")
    stage.expect(not coordinator.dies_at, "the coordinator died when it had written the end")


async def bad_streams(stage: Stage) -> None:
    """Put relays between everyone and everyone."""
    keeper = stage.arranged()
    (trainer,) = (each.command.name for each in keeper.of_role(Role.TRAINER))
    first, second = (each.command.name for each in keeper.of_role(Role.ROLLOUT))
    launch = launch_of(stage.folder, trainer)
    names = {Role.COORDINATOR: "coordinator-0", Role.TRAINER: trainer, Role.ROLLOUT: first}

    def tls_of(role: Role) -> TlsFiles:
        found = launch_of(stage.folder, names[role]).tls
        assert found is not None
        return found

    wire = Wire(to=launch.coordinator, rng=stage.rng, cut_after_bytes=60_000)
    slow = Wire(to=launch.weights, rng=stage.rng, cut_after_bytes=8_000_000, bytes_per_second=2e7)
    twice = Relay(
        to=launch.coordinator,
        program=Role.COORDINATOR,
        tls_of=tls_of,
        rng=stage.rng,
        lost_share=0.05,
        repeated=frozenset({"Deliver", "Commit", "Register", "Heartbeat"}),
    )
    damaging = Relay(
        to=launch.weights,
        program=Role.TRAINER,
        tls_of=tls_of,
        rng=stage.rng,
        damaged_share=0.2,
    )
    async with contextlib.AsyncExitStack() as stack:
        cut, crawl, loss, damage = [
            await stack.enter_async_context(each.listening())
            for each in (wire, slow, twice, damaging)
        ]
        redirect(stage.folder, trainer, {"coordinator": loss})
        redirect(stage.folder, first, {"coordinator": cut, "weights": damage})
        redirect(stage.folder, second, {"coordinator": loss, "weights": crawl})
        await stack.enter_async_context(stage.kept(keeper))
        await stage.to_the_end(keeper)
    for name, each in (("cut", wire), ("slow", slow), ("repeated", twice), ("damaged", damaging)):
        stage.counts.update({f"{name} relay, {what}": count for what, count in each.counts.items()})
    stage.expect(wire.counts["cut"] > 0, "connections were cut")
    stage.expect(twice.counts["Deliver repeated"] > 0, "delivery streams were repeated")
    stage.expect(twice.counts["Commit repeated"] > 0, "commits were repeated")
    stage.expect(damaging.counts["chunks damaged"] > 0, "chunks of weights were damaged")


async def full_disk(stage: Stage) -> None:
    """Give checkpoints a disk that is full after a few; then make room and go on."""
    keeper = stage.arranged()
    folder = stage.folder.checkpoints
    size = f"size={_DISK_MEGABYTES}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=True)
    stage.notes.append(f"a tmpfs of {_DISK_MEGABYTES} MB is the disk")
    try:
        async with stage.kept(keeper):
            await keeper.until_over(quiet_seconds=QUIET_SECONDS)
        said = keeper.failure.last_line if keeper.failure else "it went on"
        stage.expect(
            "cannot write checkpoints to" in said and "No space left" in said,
            f"the trainer gave up and said why: {said}",
        )
        subprocess.run(["mount", "-o", "remount,size=1g", folder], check=True)
        async with stage.kept() as keeper:
            await stage.to_the_end(keeper)
        leftovers = list(folder.glob(".unfinished-*"))
        stage.expect(not leftovers, "nothing half-written was left")
        kept = stage.out / "checkpoints-kept"
        shutil.copytree(folder, kept)
    finally:
        subprocess.run(["umount", folder], check=True)
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    shutil.rmtree(kept)


async def damage(stage: Stage) -> None:
    """Damage what was written while its writer is dead: the journal's end, then a checkpoint."""
    stage.story.journal_is_whole = False
    async with stage.kept() as keeper:
        for harm in (_tear_last_entry, _cut_three_entries, _flip_a_bit_of_the_end, _lose_journal):
            await _harm_journal(keeper, harm)
        await _harm_checkpoint(stage, keeper, _flip_a_bit)
    shutil.rmtree(_newest(stage))
    async with stage.kept() as keeper:
        await _harm_checkpoint(stage, keeper, _cut_in_half)
    shutil.rmtree(_newest(stage))
    async with stage.kept() as keeper:
        await stage.to_the_end(keeper)


def _every_point() -> tuple[str, ...]:
    return (*_COORDINATORS_POINTS, *_TRAINERS_POINTS, *_ROLLOUTS_POINTS)


async def deal(keeper: Keeper, strike: Strike) -> None:
    """Wait for a strike's moment, and strike."""
    await _after(keeper, versions=strike.after_versions)
    await asyncio.sleep(strike.delay_seconds)
    group = keeper.of_role(strike.role)
    watched = group[strike.pick % len(group)]
    await _started(keeper, watched)
    if not keeper.is_over and watched.process is not None:
        keeper.strike(watched, strike.number)


async def _after(keeper: Keeper, *, versions: int) -> None:
    wanted = keeper.story.num_commits + versions
    await keeper.until(
        lambda: keeper.story.num_commits >= wanted,
        what=f"{versions} more versions",
        seconds=QUIET_SECONDS,
    )


async def _started(keeper: Keeper, watched: Watched) -> None:
    await keeper.until(
        lambda: watched.process is not None,
        what=f"{watched.command.name} to start",
        seconds=QUIET_SECONDS,
    )


@contextlib.asynccontextmanager
async def _dead(keeper: Keeper, watched: Watched) -> AsyncIterator[None]:
    """Kill a process; it is started again when the block is left."""
    keeper.held[watched.command.name] = held = asyncio.Event()
    await _started(keeper, watched)
    keeper.strike(watched, signal.SIGKILL)
    await keeper.until(lambda: watched.process is None, what="a death", seconds=QUIET_SECONDS)
    yield
    del keeper.held[watched.command.name]
    held.set()


async def _harm_journal(keeper: Keeper, harm: Callable[[Path], None]) -> None:
    await _after(keeper, versions=2)
    (coordinator,) = keeper.of_role(Role.COORDINATOR)
    async with _dead(keeper, coordinator):
        keeper.read()
        path = keeper.tail.path
        assert path is not None
        harm(path)
        keeper.tail.cut(end_of(path, without_last=0))


def _tear_last_entry(journal: Path) -> None:
    _cut(journal, journal.stat().st_size - 3)


def _cut_three_entries(journal: Path) -> None:
    _cut(journal, end_of(journal, without_last=3))


def _flip_a_bit_of_the_end(journal: Path) -> None:
    """Everything from the middle on is lost with it: commits too, which the trainer has made."""
    _flip_a_bit(journal)


def _lose_journal(journal: Path) -> None:
    _cut(journal, 0)


async def _harm_checkpoint(stage: Stage, keeper: Keeper, harm: Callable[[Path], None]) -> None:
    """Damage the newest checkpoint; the trainer must name it and give up."""
    await _after(keeper, versions=4)
    (trainer,) = keeper.of_role(Role.TRAINER)
    async with _dead(keeper, trainer):
        newest = _newest(stage)
        harm(newest / "optimizer.safetensors")
    await keeper.until_over(quiet_seconds=QUIET_SECONDS)
    said = keeper.failure.last_line if keeper.failure else "it went on"
    stage.expect(
        f"checkpoint {newest} is damaged" in said, "the trainer named the damaged checkpoint"
    )


def _newest(stage: Stage) -> Path:
    return max(stage.folder.checkpoints.glob("step-*"))


def _flip_a_bit(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))


def _cut_in_half(path: Path) -> None:
    _cut(path, path.stat().st_size // 2)


def _cut(path: Path, size_bytes: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size_bytes)
