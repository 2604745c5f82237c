"""``hetrl preflight``: the command that the pod of a preflight runs."""

import sys
from pathlib import Path

import click

from hetrl_core.launch import TERMINAL_EXIT_CODE
from hetrl_core.preflight import report_to_json, request_from_json
from hetrl_runtime.preflight.preflight import preflight
from hetrl_runtime.process import logs


@click.command("preflight")
@click.option(
    "--request",
    "request_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="What to check, a JSON file.",
)
@click.option(
    "--report",
    "report_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the report goes; unset: to standard output.",
)
def command(request_file: Path, report_file: Path | None) -> None:
    """Check the models, the data and the reward of a job; `hetrl check` is for people.

    Ends with 0 when the job can run, with 3 when it cannot, and with 1 when that is not known.
    """
    logs.configure()
    try:
        report = preflight(request_from_json(request_file.read_text()))
    except (OSError, ValueError) as error:
        click.echo(" ".join(str(error).split()), err=True)
        sys.exit(1)
    text = report_to_json(report)
    if report_file:
        report_file.write_text(text)
    else:
        click.echo(text)
    sys.exit(0 if report.passed else TERMINAL_EXIT_CODE)
