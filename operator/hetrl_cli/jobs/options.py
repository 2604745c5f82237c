"""Options that all commands on jobs share, and polling with a timeout."""

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

POLL_SECONDS = 1.0

everywhere_option = click.option(
    "-A", "--all-namespaces", "is_everywhere", is_flag=True, help="Jobs of all namespaces."
)


def cluster_options(command: Command) -> Command:
    """Add ``--context`` and ``--namespace``."""
    context = click.option("--context", help="The kubeconfig's context.  [default: the current]")
    namespace = click.option(
        "-n", "--namespace", help="The job's namespace.  [default: the context's]"
    )
    return namespace(context(command))


def poll(seconds: float, *, what: str) -> Iterator[None]:
    """Yield about every second until a timeout.

    Raises:
        ClickException: at the timeout; the message names what did not happen.
    """
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        yield
        time.sleep(POLL_SECONDS)
    raise click.ClickException(f"not within {seconds:g} s: {what}")
