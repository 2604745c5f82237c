"""Lines of the command line, with texts from others in them."""

import click

from hetrl_core.escape import escaped

LAYOUT = "\n\t"
"""Control characters that move within what is printed."""


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text to standard output or standard error, control characters escaped."""
    click.echo(escaped(text, keep=LAYOUT), err=err, nl=nl)
