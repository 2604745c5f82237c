"""Supervision of real processes: small shell programs stand for the roles."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hetrl_cli.run.processes import supervisor
from hetrl_cli.run.processes.process import Command
from hetrl_cli.run.processes.restart import Failed, RestartPolicy, Succeeded
from hetrl_cli.run.processes.supervisor import End, Stopped, Supervisor, units
from hetrl_core.task import Role

pytestmark = pytest.mark.slow

POLICY = RestartPolicy(max_restarts=3, first_backoff_seconds=0.01)


def a_command(folder: Path, name: str, role: Role, script: str) -> Command:
    return Command(
        name=name,
        role=role,
        arguments=("/bin/bash", "-c", script),
        environment={**os.environ, "FOLDER": str(folder)},
        log=folder / f"{name}.log",
    )


async def run(*commands: Command, said: list[str] | None = None) -> End:
    announced = said if said is not None else []
    never: asyncio.Future[End] = asyncio.get_running_loop().create_future()
    return await a_supervisor(*commands, announce=announced.append).run(never)


def a_supervisor(*commands: Command, announce: Callable[[str], None]) -> Supervisor:
    return Supervisor(units(commands), essential=POLICY, workers=POLICY, announce=announce)


def is_alive(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool], *, within_seconds: float = 20.0) -> None:
    deadline = time.monotonic() + within_seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


async def test_run_succeeds_when_every_process_has(tmp_path: Path) -> None:
    end = await run(
        a_command(tmp_path, "coordinator-0", Role.COORDINATOR, "true"),
        a_command(tmp_path, "trainer-a-0-0", Role.TRAINER, "true"),
        a_command(tmp_path, "rollout-b-0-0", Role.ROLLOUT, "true"),
    )

    assert end == Succeeded()


async def test_process_that_dies_is_started_again(tmp_path: Path) -> None:
    said: list[str] = []
    dies_twice = "echo x >> $FOLDER/tries; [ $(wc -l < $FOLDER/tries) -gt 2 ] || kill -9 $$"

    end = await run(a_command(tmp_path, "coordinator-0", Role.COORDINATOR, dies_twice), said=said)

    assert end == Succeeded()
    assert said == [
        "coordinator-0 was killed by signal 9; restarting in 0.01 s",
        "coordinator-0 was killed by signal 9; restarting in 0.02 s",
    ]


async def test_deaths_of_coordinator_and_trainer_count_together(tmp_path: Path) -> None:
    end = await run(
        a_command(tmp_path, "coordinator-0", Role.COORDINATOR, "exit 1"),
        a_command(tmp_path, "trainer-a-0-0", Role.TRAINER, "exit 1"),
    )

    assert isinstance(end, Failed)
    assert "restarts are used up (at most 3 within 600 s)" in end.reason


async def test_training_replica_that_dies_takes_its_gang_with_it(tmp_path: Path) -> None:
    dies_then = "{ until [ -s $FOLDER/second ]; do sleep 0.05; done; exit 1; }"
    first = "echo x >> $FOLDER/first; [ $(wc -l < $FOLDER/first) -gt 1 ] || " + dies_then
    second = "echo x >> $FOLDER/second; [ $(wc -l < $FOLDER/second) -gt 1 ] || sleep 60"

    end = await run(
        a_command(tmp_path, "trainer-a-0-0", Role.TRAINER, first),
        a_command(tmp_path, "trainer-a-0-1", Role.TRAINER, second),
    )

    assert end == Succeeded()
    assert (tmp_path / "second").read_text().split() == ["x", "x"]


async def test_terminal_exit_ends_the_run_and_stops_the_others(
    tmp_path: Path,
) -> None:
    end = await run(
        a_command(tmp_path, "coordinator-0", Role.COORDINATOR, "echo $$ > $FOLDER/pid; sleep 60"),
        a_command(
            tmp_path,
            "trainer-a-0-0",
            Role.TRAINER,
            "until [ -s $FOLDER/pid ]; do sleep 0.05; done; echo loading; "
            "echo 'NotFound: model /m has no config.json' >&2; exit 3",
        ),
    )

    assert end == Failed("NotFound: model /m has no config.json")
    assert not is_alive(int((tmp_path / "pid").read_text()))


async def test_children_that_a_process_leaves_behind_are_ended(tmp_path: Path) -> None:
    leaves_a_child = "sleep 60 & echo $! > $FOLDER/child"

    await run(a_command(tmp_path, "coordinator-0", Role.COORDINATOR, leaves_a_child))

    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not is_alive(child))


async def test_rollouts_that_do_not_follow_are_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "DRAIN_SECONDS", 0.2)

    end = await run(
        a_command(tmp_path, "coordinator-0", Role.COORDINATOR, "true"),
        a_command(tmp_path, "rollout-a-0-0", Role.ROLLOUT, "sleep 60"),
    )

    assert end == Succeeded()


async def test_coordinator_that_outlives_the_trainer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FOLLOW_SECONDS", 0.2)

    end = await run(
        a_command(tmp_path, "coordinator-0", Role.COORDINATOR, "sleep 60"),
        a_command(tmp_path, "trainer-a-0-0", Role.TRAINER, "true"),
    )

    assert end == Failed("coordinator-0 did not end within 0.2 s of the run's end")


async def test_process_that_ignores_the_request_to_stop_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "GRACE_SECONDS", 0.3)
    deaf = "trap '' TERM; echo $$ > $FOLDER/pid; while true; do sleep 0.1; done"
    stop: asyncio.Future[End] = asyncio.get_running_loop().create_future()
    commands = (a_command(tmp_path, "coordinator-0", Role.COORDINATOR, deaf),)
    running = asyncio.create_task(a_supervisor(*commands, announce=print).run(stop))
    while not (tmp_path / "pid").exists():
        await asyncio.sleep(0.05)

    stop.set_result(Stopped(signal.SIGINT))

    assert await running == Stopped(signal.SIGINT)
    assert not is_alive(int((tmp_path / "pid").read_text()))


async def test_second_signal_ends_all_at_once_and_restarts_nothing(tmp_path: Path) -> None:
    deaf = "trap '' TERM; echo $$ >> $FOLDER/{}; while true; do sleep 0.1; done"
    stop: asyncio.Future[End] = asyncio.get_running_loop().create_future()
    announced: list[str] = []
    supervised = a_supervisor(
        a_command(tmp_path, "coordinator-0", Role.COORDINATOR, deaf.format("coordinator")),
        a_command(tmp_path, "trainer-a-0-0", Role.TRAINER, deaf.format("trainer")),
        announce=announced.append,
    )
    running = asyncio.create_task(supervised.run(stop))
    names = ("coordinator", "trainer")
    while not all((tmp_path / each).exists() for each in names):
        await asyncio.sleep(0.05)

    stop.set_result(Stopped(signal.SIGINT))
    await asyncio.sleep(0)
    supervised.kill()

    assert await running == Stopped(signal.SIGINT)
    pids = [(tmp_path / each).read_text().split() for each in names]
    assert [len(each) for each in pids] == [1, 1], "none was started again"
    assert not any(is_alive(int(each)) for started in pids for each in started)
    assert not announced


async def test_coordinator_is_stopped_when_no_longer_needed(tmp_path: Path) -> None:
    says_when = "trap 'sleep {wait}; echo {name} >> $FOLDER/order; exit 143' TERM; "
    waits = "touch $FOLDER/{name}; while true; do sleep 0.05; done"
    commands = [
        a_command(tmp_path, name, role, (says_when + waits).format(name=name, wait=wait))
        for name, role, wait in [
            ("coordinator-0", Role.COORDINATOR, 0),
            ("trainer-a-0-0", Role.TRAINER, 0.4),
            ("rollout-a-0-0", Role.ROLLOUT, 0.4),
        ]
    ]
    stop: asyncio.Future[End] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(a_supervisor(*commands, announce=print).run(stop))
    while not all((tmp_path / command.name).exists() for command in commands):
        await asyncio.sleep(0.05)

    stop.set_result(Stopped(signal.SIGTERM))
    await running

    *others, last = (tmp_path / "order").read_text().split()
    assert last == "coordinator-0"
    assert sorted(others) == ["rollout-a-0-0", "trainer-a-0-0"]


def test_orphan_cleanup_ends_processes_of_a_killed_owner() -> None:
    groups = [
        subprocess.Popen(["/bin/bash", "-c", "sleep 60 & wait"], start_new_session=True)
        for _ in range(2)
    ]
    cleanup = subprocess.Popen(
        [sys.executable, "-m", "hetrl_cli.run.processes.orphan_cleanup"],
        stdin=subprocess.PIPE,
        text=True,
    )
    assert cleanup.stdin is not None
    kept, forgotten = groups
    cleanup.stdin.write(f"+{kept.pid}\n+{forgotten.pid}\n-{forgotten.pid}\n")

    cleanup.stdin.close()

    assert kept.wait(timeout=20) == -signal.SIGTERM
    assert cleanup.wait(timeout=20) == 0
    assert forgotten.poll() is None
    os.killpg(forgotten.pid, signal.SIGKILL)
    forgotten.wait(timeout=20)


_DIES_AFTER_STARTING = """
import asyncio, os, signal, subprocess
from pathlib import Path
from tests.cli.test_run_supervisor import Role, a_command, run

popen = subprocess.Popen.__init__

def start_and_die(self, arguments, **options):
    popen(self, arguments, **options)
    if arguments[0] == "/bin/sh":
        (folder / "pid").write_text(str(self.pid))
        os.kill(os.getpid(), signal.SIGKILL)

folder = Path(os.environ["FOLDER"])
subprocess.Popen.__init__ = start_and_die
asyncio.run(run(a_command(folder, "coordinator-0", Role.COORDINATOR, "sleep 60")))
"""


def test_process_does_not_outlive_an_owner_killed_at_start(tmp_path: Path) -> None:
    owner = [sys.executable, "-c", _DIES_AFTER_STARTING]
    ended = subprocess.run(
        owner, env={**os.environ, "FOLDER": str(tmp_path)}, timeout=60, check=False
    )

    assert ended.returncode == -signal.SIGKILL
    # The owner wrote it: its process may be ended before the first line of its own script.
    started = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_alive(started))
