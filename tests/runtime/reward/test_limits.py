"""Limits of one response and one process, and the end of a process that exceeds them."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hetrl_core.job.reward import PythonReward
from hetrl_runtime.reward.confinement import process
from hetrl_runtime.reward.confinement.code import CodeError, ConfinedCode
from hetrl_runtime.reward.confinement.usage import MAX_THREADS, Usage, excess, usage_of
from hetrl_runtime.reward.verdict import Response, Unjudged, Verdict

CODE = r'''
import ctypes, signal, threading, time

def score(response, answer):
    """The action that the response names."""
    return ACTIONS[response]() or 1.0

def spin():
    while True:
        pass

def spin_named():
    """Spin under a name that is no text, and that looks like the end of the kernel's field."""
    ctypes.CDLL(None).prctl(15, b"\xff) R 1 (", 0, 0, 0)
    spin_on()

def spin_on():
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGXCPU])
    spin()

def spin_behind():
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    threading.Thread(target=spin, daemon=True).start()

def threads(count):
    threading.stack_size(64 << 10)
    for _ in range(count):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    time.sleep(600 if count > 256 else 0)

def use(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    CALLS.append(1)
    return len(CALLS)

def tell():
    raise ValueError("first\n2026-01-31 ERROR second \x1b[31m" + "x" * 2000)

CALLS = []
ACTIONS = {
    "spin on": lambda: spin_on(),
    "spin named": lambda: spin_named(),
    "spin behind": lambda: spin_behind(),
    "some threads": lambda: threads(16),
    "many threads": lambda: threads(400),
    "use": lambda: use(0.6),
    "tell": tell,
    "sleep": lambda: time.sleep(600),
}
'''


async def ask(code: ConfinedCode, action: str) -> Verdict:
    return await code.score(Response(text=action, reference=""))


@pytest.fixture
def reward(tmp_path: Path) -> PythonReward:
    file = tmp_path / "code.py"
    file.write_text(CODE)
    return PythonReward(file=str(file), timeout_seconds=600, cpu_seconds=1)


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        (Usage(cpu_seconds=2.4, threads=1), None),
        (Usage(cpu_seconds=2.6, threads=1), "more processor time than cpuSeconds allows"),
        (Usage(cpu_seconds=0, threads=MAX_THREADS), None),
        (Usage(cpu_seconds=0, threads=MAX_THREADS + 1), "257 threads, at most 256"),
    ],
)
def test_excess_names_what_is_too_much(usage: Usage, said: str | None) -> None:
    found = excess(usage, until_cpu_seconds=2)
    assert found is None if said is None else said in str(found)


def test_usage_of_a_process_is_read() -> None:
    found = usage_of(os.getpid())
    assert found.threads >= threading.active_count()
    assert found.cpu_seconds > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("spin on", "it uses more processor time than cpuSeconds allows"),
        ("spin named", "it uses more processor time than cpuSeconds allows"),
        ("many threads", "threads, at most 256 are allowed"),
    ],
)
async def test_limits_hold_where_signals_are_ignored(
    reward: PythonReward, action: str, said: str
) -> None:
    async with ConfinedCode(reward) as code:
        verdict = await ask(code, action)
        assert await ask(code, "some threads") == 1.0

    assert isinstance(verdict, Unjudged)
    assert said in verdict.detail


@pytest.mark.slow
async def test_limits_hold_between_two_responses(reward: PythonReward) -> None:
    async with ConfinedCode(reward) as code:
        assert await ask(code, "spin behind") == 1.0
        async with asyncio.timeout(60):
            await code._processes[0]._process.wait()
        # The response after it is judged all the same: a new process answers.
        assert await ask(code, "some threads") == 1.0


@pytest.mark.slow
async def test_process_near_the_limit_of_its_life_is_replaced(
    reward: PythonReward, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "LIFE_RESPONSES", 3 - int(process.START_SECONDS))

    async with ConfinedCode(reward) as code:
        found = [await ask(code, "use") for _ in range(3)]

    # Three seconds of life: two responses at most, and none is lost.
    assert found[0] == 1.0
    assert found.count(1.0) >= 2
    assert not any(isinstance(each, Unjudged) for each in found)
    assert not caplog.records


@pytest.mark.slow
def test_hard_limit_of_processor_time_ends_what_ignores_its_signal() -> None:
    code = (
        "import signal, sys\n"
        "from hetrl_runtime.reward.confinement.limits import set_limits\n"
        "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
        "set_limits(memory_bytes=1 << 30, cpu_seconds=1)\n"
        "while True: pass\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False)
    assert ended.returncode == -signal.SIGKILL


ASKS = """
import asyncio, sys
from hetrl_core.job.reward import PythonReward
from hetrl_runtime.reward.confinement.code import ConfinedCode
from hetrl_runtime.reward.verdict import Response

async def main():
    reward = PythonReward(file=sys.argv[1], timeout_seconds=600, cpu_seconds=600)
    async with ConfinedCode(reward) as code:
        print(code._processes[0].pid, flush=True)
        await code.score(Response(text="sleep", reference=""))

asyncio.run(main())
"""


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # Nothing may reap it in a container.


@pytest.mark.slow
def test_process_ends_with_the_one_that_asks(reward: PythonReward) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ASKS, reward.file], stdout=subprocess.PIPE, text=True
    ) as asks:
        assert asks.stdout
        pid = int(asks.stdout.readline())
        assert is_running(pid)
        asks.kill()
    deadline = time.monotonic() + 30
    while is_running(pid):
        assert time.monotonic() < deadline, "the process outlives the one that asked"
        time.sleep(0.01)


@pytest.mark.slow
def test_process_whose_parent_has_ended_before_does_not_serve(reward: PythonReward) -> None:
    # Another process than the one that starts it.
    bounds = (1 << 30, 60, os.getppid(), "")
    said = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "hetrl_runtime.reward.confinement.runner"),
            *(reward.file, "score"),
            *map(str, bounds),
        ],
        check=True,
        capture_output=True,
        text=True,
        input="",
    )
    assert "has ended" in said.stdout
    assert "ready" not in said.stdout


@pytest.mark.slow
async def test_log_takes_what_code_says_on_one_line(
    reward: PythonReward, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with ConfinedCode(reward) as code:
            assert isinstance(await ask(code, "tell"), Unjudged)

    (record,) = caplog.records
    assert record.getMessage().isprintable()
    said = record.getMessage().removeprefix(
        "data.python: a response is not judged: FunctionRaised: "
    )
    assert said.startswith(r"ValueError: first\n2026-01-31 ERROR second \x1b[31mxxx")
    assert said.count("x") < 200


@pytest.mark.slow
async def test_error_of_loading_takes_what_code_says_on_one_line(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text("raise ValueError('first\\nsecond\\x1b[31m' + 'x' * 2000)")

    with pytest.raises(CodeError) as error:
        async with ConfinedCode(PythonReward(file=str(file))):
            pass

    assert str(error.value).isprintable()
    assert str(error.value).count("x") < 220
