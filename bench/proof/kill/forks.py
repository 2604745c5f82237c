"""Forks the processes of runs from an interpreter that has imported their heavy libraries.

``python -m bench.proof.kill.forks`` reads a command a line and forks a process for each. It leads a
session of its own and calls `hetrl`'s entry point with its arguments, environment and log, as if
it had been executed. Only the seconds in which Python imports PyTorch are left out, which on a busy
machine are most of a process's life: what is struck should be this project's code. None of that
is imported before the fork.
"""

import contextlib
import json
import os
import select
import signal
import sys
from importlib import import_module
from typing import Any

_HEAVY = (
    *("aiohttp", "google.protobuf", "grpc.aio", "numpy", "pebble", "prometheus_client", "pydantic"),
    *("torch", "torch.distributed.fsdp", "torch.distributed.pipelining"),
    *("transformers.models.auto.modeling_auto", "transformers.models.qwen3.modeling_qwen3"),
    "transformers.tokenization_utils_tokenizers",
)
_POLL_SECONDS = 0.01


def main() -> None:
    """Fork on request until the input ends; then kill the remaining processes."""
    for name in _HEAVY:
        import_module(name)
    running: set[int] = set()
    is_asked = True
    while is_asked:
        ready, _, _ = select.select([sys.stdin.buffer], [], [], _POLL_SECONDS)
        if ready:
            line = sys.stdin.buffer.readline()
            is_asked = bool(line)
            if line:
                running.add(_fork(json.loads(line)))
        _reap(running)
    for pid in running:
        # One that was forked a moment ago does not lead its group yet.
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _fork(said: dict[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        _become(said)
        sys.exit()
    print(f"started {pid}", flush=True)
    return pid


def _become(said: dict[str, Any]) -> None:
    """Be the process that was asked for."""
    os.setsid()
    log = os.open(said["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(said["environment"])
    sys.argv = ["hetrl", *said["arguments"]]
    from hetrl_cli.main import main as hetrl  # noqa: PLC0415

    hetrl()


def _reap(running: set[int]) -> None:
    for pid in tuple(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            running.discard(pid)
            print(f"ended {pid} {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    main()
