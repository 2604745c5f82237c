"""Options of every pod's command: the launch contract, and the pod's ordinal.

``hetrl_core.launch`` defines the contract.
"""

import socket
import sys
from pathlib import Path

import click

from hetrl_core import launch as contract
from hetrl_core.launch import Launch

FROM_HOSTNAME = "from-hostname"


def ordinal(given: str) -> int:
    """Return a pod's number in its set: given, or what follows the last dash of the hostname.

    Raises:
        BadParameter: there is no number; the message names what was given, or the hostname.
    """
    if given != FROM_HOSTNAME:
        if not given.isdecimal():
            raise click.BadParameter(f"must be a number or {FROM_HOSTNAME}, got {given!r}")
        return int(given)
    hostname = socket.gethostname().partition(".")[0]
    number = hostname.rpartition("-")[2]
    if not number.isdecimal():
        raise click.BadParameter(f"the hostname must end in -NUMBER, got {hostname!r}")
    return int(number)


def _launch(file: Path) -> Launch:
    """Read the launch contract; end the process with 1, and the reason, if that cannot be."""
    try:
        return contract.from_json(file.read_text())
    except (OSError, ValueError) as error:
        click.echo(str(error), err=True)
        sys.exit(1)


launch_option = click.option(
    "--launch",
    callback=lambda _context, _parameter, file: _launch(file),
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="The launch contract, a JSON file.",
)

ordinal_option = click.option(
    "--ordinal",
    callback=lambda _context, _parameter, given: ordinal(given),
    required=True,
    metavar="N",
    help=f"The pod's number in its set, or {FROM_HOSTNAME}: what follows the last dash there.",
)
