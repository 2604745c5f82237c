"""A job's own reward code: what it may do, and what becomes of it when it does more."""

import asyncio
import socket
import time
from pathlib import Path

import pytest

from hetrl_core.job.reward import PythonReward
from hetrl_runtime.reward.confinement.code import CodeError, ConfinedCode
from hetrl_runtime.reward.verdict import Response, Unjudged, UnjudgedReason, Verdict

pytestmark = pytest.mark.slow

CODE = '''
import json, math, os, signal, socket, subprocess, sys, threading, time

def score(response, answer):
    """The command in the response."""
    name, _, argument = response.partition(" ")
    return ACTIONS[name](argument, answer)

def spin(*_):
    while True:
        pass

def attempt(action):
    def tried(argument, answer):
        try:
            action(argument)
        except OSError:
            return 0.5
        return 1.0
    return tried

def in_a_thread(*_):
    found = []
    thread = threading.Thread(target=lambda: found.append(1.0))
    thread.start()
    thread.join()
    return found[0]

def forge(reply, _):
    """Answer before the runner does, wherever it would."""
    for number in range(3, 30):
        try:
            os.write(number, reply.encode("unicode_escape").replace(b"@", b"[" * 9000) + b"\\n")
        except OSError:
            pass
    return 1.0

CALLS = []

ACTIONS = {
    "forge": forge,
    "chroot": attempt(os.chroot),
    "compare": lambda given, answer: float(given == answer),
    "print": lambda *_: print("9.0", flush=True) or os.write(1, b"{}\\n") and 1.0,
    "count": lambda *_: CALLS.append(1) or len(CALLS),
    "thread": in_a_thread,
    "spin": spin,
    "sleep": lambda *_: time.sleep(1000),
    "grow": lambda *_: len(bytearray(3 << 30)),
    "raise": lambda *_: 1 / 0,
    "exit": lambda *_: os._exit(7),
    "text": lambda *_: "1.0",
    "nan": lambda *_: math.nan,
    "connect": attempt(lambda port: socket.create_connection(("127.0.0.1", int(port)), 5)),
    "unix": attempt(lambda _: socket.socket(socket.AF_UNIX)),
    "fork": attempt(lambda _: os.fork() or os._exit(0)),
    "spawn": attempt(lambda _: subprocess.run(["/bin/true"])),
    "exec": attempt(lambda _: os.execv("/bin/true", ["true"])),
    "signal": attempt(lambda _: os.kill(os.getppid(), 0)),
    "write": attempt(lambda path: open(path, "w").write("x")),
    "remove": attempt(os.unlink),
    "rename": attempt(lambda path: os.rename(path, path + "2")),
    "secret": lambda *_: float("TOKEN" in os.environ),
}
'''


@pytest.fixture
def reward(tmp_path: Path) -> PythonReward:
    file = tmp_path / "code.py"
    file.write_text(CODE)
    return PythonReward(file=str(file), timeout_seconds=60, cpu_seconds=1, memory_bytes=512 << 20)


async def ask(code: ConfinedCode, response: str, answer: str) -> Verdict:
    return await code.score(Response(text=response, reference=answer))


async def test_confined_function_scores(reward: PythonReward) -> None:
    async with ConfinedCode(reward) as code:
        assert await ask(code, "compare 18", "18") == 1.0
        assert await ask(code, "compare 17\n\u2028 \x00", "18") == 0.0
        assert await ask(code, "print", "") == 1.0
        assert await ask(code, "thread", "") == 1.0


@pytest.mark.parametrize(
    "action",
    ["unix", "fork", "spawn", "exec", "signal", "chroot /", "write /tmp/x", "write /dev/shm/x"],
)
async def test_forbidden_action_is_refused(reward: PythonReward, action: str) -> None:
    async with ConfinedCode(reward) as code:
        assert await ask(code, action, "") == 0.5


async def test_confined_function_reaches_no_network(reward: PythonReward) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with ConfinedCode(reward) as code:
            assert await ask(code, f"connect {server.getsockname()[1]}", "") == 0.5


async def test_confined_function_cannot_change_the_files_of_the_job(
    reward: PythonReward, tmp_path: Path
) -> None:
    precious = tmp_path / "weights"
    precious.write_text("precious")

    async with ConfinedCode(reward) as code:
        for action in ("write", "remove", "rename"):
            assert await ask(code, f"{action} {precious}", "") == 0.5

    assert precious.read_text() == "precious"


async def test_confined_function_sees_no_environment(
    reward: PythonReward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "secret")

    async with ConfinedCode(reward) as code:
        assert await ask(code, "secret", "") == 0.0


@pytest.mark.parametrize(
    ("action", "reason", "said"),
    [
        ("spin", UnjudgedReason.TIME_LIMIT, "more processor time than cpuSeconds allows"),
        ("grow", UnjudgedReason.FUNCTION_RAISED, "MemoryError"),
        ("raise", UnjudgedReason.FUNCTION_RAISED, "ZeroDivisionError: division by zero"),
        ("exit", UnjudgedReason.PROCESS_LOST, "it ended with 7"),
        ("text", UnjudgedReason.WRONG_TYPE, "the reward function returned str '1.0'"),
        ("nan", UnjudgedReason.NOT_FINITE, "the reward function returned nan"),
    ],
)
async def test_unjudged_response_has_a_reason_and_harms_no_other(
    reward: PythonReward,
    action: str,
    reason: UnjudgedReason,
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with ConfinedCode(reward) as code:
        verdict = await ask(code, action, "")
        assert await ask(code, "compare 1", "1") == 1.0

    assert isinstance(verdict, Unjudged)
    assert verdict.reason is reason
    assert said in verdict.detail
    assert f"{reason}: " in caplog.text


@pytest.mark.parametrize(
    "reply",
    [
        "{}",
        "[]",
        "null",
        "no JSON",
        '{"reward": "1"}',
        '{"reward": NaN}',
        '{"reward": [1]}',
        '{"reward": 1' + "0" * 400 + "}",
        "@",
        "x" * 100_000,
        "",
    ],
    ids=lambda reply: reply[:16],
)
async def test_forged_answer_is_unjudged(reward: PythonReward, reply: str) -> None:
    async with ConfinedCode(reward) as code:
        verdict = await ask(code, f"forge {reply}", "")
        assert await ask(code, "compare 1", "1") == 1.0

    assert isinstance(verdict, Unjudged)
    assert verdict.reason is UnjudgedReason.PROCESS_LOST


async def test_time_is_limited_where_no_processor_is_used(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(CODE)
    impatient = PythonReward(file=str(tmp_path / "code.py"), timeout_seconds=0.2)

    async with ConfinedCode(impatient) as code:
        started = time.monotonic()
        verdict = await ask(code, "sleep", "")
        assert time.monotonic() - started < 60

    assert isinstance(verdict, Unjudged)
    assert str(verdict) == "TimeLimit: takes more than 0.2 s by the clock"


async def test_processor_time_is_counted_for_each_answer_alone(reward: PythonReward) -> None:
    async with ConfinedCode(reward) as code:
        found = [await ask(code, "count", "") for _ in range(50)]

    assert found == [float(number) for number in range(1, 51)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("def score(:", "SyntaxError"),
        ("import nowhere_at_all", "ModuleNotFoundError"),
        ("points = 1", "has no function score"),
        ("import sys\nsys.exit(0)", "SystemExit"),
        ("def score():\n    return 1.0", "score takes nothing; a reward function takes"),
        ("async def score(response, answer):\n    return 1.0", "is a coroutine function"),
    ],
)
async def test_code_that_cannot_be_used_is_named(
    tmp_path: Path, content: str | None, said: str
) -> None:
    file = tmp_path / "code.py"
    if content is not None:
        file.write_text(content)

    with pytest.raises(CodeError, match=rf"data.python: {file} cannot be used: .*{said}"):
        async with ConfinedCode(PythonReward(file=str(file))):
            pass


async def test_responses_are_judged_by_several_processes_at_once(reward: PythonReward) -> None:
    async with ConfinedCode(reward, max_processes=2) as code:
        found = await asyncio.gather(*(ask(code, "count", "") for _ in range(4)))

        assert sorted(found) in ([1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 3.0])
        assert len(code._processes) == 2
