"""The program of a rollout worker's pod."""

import asyncio
import os

import click

from hetrl_core.launch import TERMINAL_EXIT_CODE, Launch
from hetrl_runtime.compute import memory
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.process import logs
from hetrl_runtime.process.graceful_shutdown import until_stopped
from hetrl_runtime.reward.confinement.code import CodeError
from hetrl_runtime.rollout.errors import EngineFailedError
from hetrl_runtime.tracing.tracer import TracesUnavailableError
from hetrl_runtime.transport.errors import RunEnded, TransportError

VLLM_SETTINGS = {
    # Threads are already running here; a forked copy of their locks would hang.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    # Several workers may share a machine's cores, and each would choose the same ones.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
"""Defaults of variables that vLLM reads from the environment when it is imported."""


def generate(launch: Launch, ordinal: int) -> int:
    """Work for a run until it ends; return the exit code, after saying on the last line why."""
    logs.configure()
    memory.keep_freed()
    _prepare_environment()
    try:
        asyncio.run(_work(launch, ordinal))
    except RunEnded as ended:
        click.echo(str(ended), err=True)
    except (ModelError, CodeError, TracesUnavailableError) as error:
        click.echo(str(error), err=True)
        return TERMINAL_EXIT_CODE
    except (OSError, ValueError, TransportError, EngineFailedError) as error:
        click.echo(str(error), err=True)
        return 1
    return 0


def _prepare_environment() -> None:
    for name, value in VLLM_SETTINGS.items():
        os.environ.setdefault(name, value)


async def _work(launch: Launch, ordinal: int) -> None:
    # PyTorch takes seconds to import; `hetrl --help` should not.
    from hetrl_runtime.rollout.worker import work  # noqa: PLC0415

    ending = await until_stopped(work(launch, ordinal=ordinal))
    click.echo(f"the run ended: {ending.reason}", err=True)
