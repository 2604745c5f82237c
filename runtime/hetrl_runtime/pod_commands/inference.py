"""``hetrl inference``: the command of an inference worker's pod."""

import sys

import click

from hetrl_core.launch import Launch
from hetrl_runtime.inference.program import serve
from hetrl_runtime.process.pod_options import launch_option, ordinal_option


@click.command("inference")
@launch_option
@ordinal_option
def command(launch: Launch, ordinal: int) -> None:
    """Score responses by a run's frozen models, until it ends.

    Ends with 0 when the run is over or the worker was stopped; with 3 when the model cannot
    be loaded; with 1 when it cannot go on, for a reason on the last line.
    """
    sys.exit(serve(launch, ordinal))
