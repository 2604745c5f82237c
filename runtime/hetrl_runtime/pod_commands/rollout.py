"""``hetrl rollout``: the command of a rollout worker's pod."""

import sys
from functools import partial

import click

from hetrl_core.launch import Launch
from hetrl_runtime.pod_commands.colocated import colocated_programs
from hetrl_runtime.process.child_processes import run_together
from hetrl_runtime.process.pod_options import launch_option, ordinal_option
from hetrl_runtime.rollout.program import generate


@click.command("rollout")
@launch_option
@ordinal_option
def command(launch: Launch, ordinal: int) -> None:
    """Generate trajectories for one run, until it ends.

    Ends with 0 when the run is over or the worker was stopped; with 3 when the model
    cannot be found, the job's own code cannot be used, or traces are asked for where nothing
    can send them; with 1 when it cannot go on, for a reason on the last line.
    """
    own = partial(generate, launch, ordinal)
    sys.exit(run_together([own], colocated=tuple(colocated_programs(launch, ordinal))))
