"""``hetrl trainer``: the command of a trainer's pod."""

import sys
from functools import partial

import click

from hetrl_core.launch import Launch
from hetrl_runtime.pod_commands.colocated import colocated_programs
from hetrl_runtime.process.child_processes import run_together
from hetrl_runtime.process.pod_options import launch_option, ordinal_option
from hetrl_runtime.trainer.program import train, training_ranks


@click.command("trainer")
@launch_option
@ordinal_option
def command(launch: Launch, ordinal: int) -> None:
    """Train a pod's parts of the models on the batches of a run, a process for each GPU.

    Ends with 0 when all steps are done, and after SIGTERM, with a checkpoint of the last step;
    with 3 when the run failed for good, the reason on the last line; else with 1.
    """
    try:
        ranks = training_ranks(launch, ordinal)
    except ValueError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    works = [partial(train, launch, rank) for rank in ranks]
    sys.exit(run_together(works, colocated=tuple(colocated_programs(launch, ordinal))))
