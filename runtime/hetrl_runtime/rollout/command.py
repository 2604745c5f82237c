"""``hetrl rollout``: the command that a rollout worker's pod runs."""

import asyncio
import os
import sys
from functools import partial
from pathlib import Path

import click

from hetrl_core import launch as contract
from hetrl_core.launch import TERMINAL_EXIT_CODE, Launch
from hetrl_runtime.colocated import works_beside
from hetrl_runtime.compute import memory
from hetrl_runtime.process import logs
from hetrl_runtime.process.graceful_shutdown import until_stopped
from hetrl_runtime.process.pod import launch_option, ordinal_option
from hetrl_runtime.process.processes import run_together
from hetrl_runtime.reward.confined import CodeError
from hetrl_runtime.rollout.errors import EngineFailedError, ModelNotFoundError
from hetrl_runtime.tracing.opening import TracesUnavailableError
from hetrl_runtime.transport.errors import RunEnded, TransportError

VLLM_SETTINGS = {
    # Threads are already running here; a forked copy of their locks would hang.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    # Several workers may share a machine's cores, and each would choose the same ones.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
"""What vLLM reads from the environment when it is imported, where nobody has set it."""


@click.command("rollout")
@launch_option
@ordinal_option
def command(launch_file: Path, ordinal: int) -> None:
    """Generate trajectories for one run, until it ends.

    Ends with 0 when the run is over or the worker was told to stop; with 3 when the model
    cannot be found, the job's own code cannot be used, or traces are asked for where nothing
    can send them; with 1 when it cannot go on, for a reason on the last line.
    """
    try:
        launch = contract.from_json(launch_file.read_text())
    except (OSError, ValueError) as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    own = partial(generate, launch, ordinal)
    sys.exit(run_together([own], beside=tuple(works_beside(launch, ordinal))))


def generate(launch: Launch, ordinal: int) -> int:
    """Work for a run until it ends; return the exit code, after saying on the last line why."""
    logs.configure()
    memory.keep_freed()
    _prepare_environment()
    try:
        asyncio.run(_work(launch, ordinal))
    except RunEnded as ended:
        click.echo(str(ended), err=True)
    except (ModelNotFoundError, CodeError, TracesUnavailableError) as error:
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
