"""``hetrl coordinator``: the command that a coordinator's pod runs."""

import asyncio
import signal
import sys

import click

from hetrl_core.launch import TERMINAL_EXIT_CODE, Launch
from hetrl_runtime.compute import memory
from hetrl_runtime.coordinator.server import serve
from hetrl_runtime.pod_commands.row_check import left_out_prompts
from hetrl_runtime.process import logs
from hetrl_runtime.process.pod_options import launch_option
from hetrl_runtime.transport.event_loop import on_the_fastest_loop, spare_the_processor
from hetrl_runtime.wire.values import Ending

STOPPED_EXIT_CODE = 128 + signal.SIGTERM


@click.command("coordinator")
@launch_option
@click.option(
    "--ordinal",
    expose_value=False,
    help="The pod's number, as for every pod; ignored, since there is one coordinator.",
)
def command(launch: Launch) -> None:
    """Coordinate one run: lease prompts, accept trajectories, hand batches to the trainer.

    Ends with 0 when all steps are done; with 3 when the run failed for good, the reason on
    the last line and in result.json; with 143 when it was stopped before its end.
    """
    logs.configure()
    try:
        memory.keep_freed()
        spare_the_processor()
        ending = on_the_fastest_loop(_until_stopped(launch))
    except (OSError, ValueError) as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    if ending is None:
        sys.exit(STOPPED_EXIT_CODE)
    if not ending.succeeded:
        click.echo(f"{ending.reason}: {ending.message}", err=True)
        sys.exit(TERMINAL_EXIT_CODE)


async def _until_stopped(launch: Launch) -> Ending | None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return await serve(launch, stop=stop, row_check=left_out_prompts)
