"""``hetrl inference``: the command of an inference worker's pod."""

import sys
from pathlib import Path

import click

from hetrl_core import launch as contract
from hetrl_runtime.inference.program import serve
from hetrl_runtime.process.pod_options import launch_option, ordinal_option


@click.command("inference")
@launch_option
@ordinal_option
def command(launch_file: Path, ordinal: int) -> None:
    """Score responses by a run's frozen models, until it ends.

    Ends with 0 when the run is over or the worker was stopped; with 3 when the model cannot
    be loaded; with 1 when it cannot go on, for a reason on the last line.
    """
    try:
        launch = contract.from_json(launch_file.read_text())
    except (OSError, ValueError) as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    sys.exit(serve(launch, ordinal))
