"""``hetrl submit``: validate a job locally, apply it, and follow it on request."""

import sys
from pathlib import Path
from typing import Any

import click

from hetrl_api.load import read_job
from hetrl_api.validation.documents import documents
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_cli.cluster.connection import Connection, connect
from hetrl_cli.files import job_file_option, read_text
from hetrl_cli.jobs.follow import Until, follow
from hetrl_cli.jobs.options import cluster_options
from hetrl_cli.say import say


@click.command("submit")
@job_file_option
@click.option(
    "--until",
    type=click.Choice([each.value for each in Until]),
    help="Follow the job: until it is planned (ends 2 where there is no plan), until it runs, or "
    "until it has ended (ends 1 where it failed).",
)
@click.option("--follow", "until", flag_value=Until.ENDED.value, help="The same as --until ended.")
@click.option(
    "--timeout",
    "timeout_seconds",
    type=click.FloatRange(min=1),
    default=86_400.0,
    show_default=True,
    help="Longest time to follow, in seconds.",
)
@cluster_options
def command(
    *,
    job_file: Path,
    until: str | None,
    timeout_seconds: float,
    context: str | None,
    namespace: str | None,
) -> None:
    """Create a job, or update it to the state of its file.

    Errors are reported before anything is sent.
    """
    manifest = _checked(read_text(job_file))
    connection = connect(
        context=context, namespace=namespace or manifest["metadata"].get("namespace")
    )
    name = _applied(connection, manifest)
    if until:
        sys.exit(follow(connection, name, until=Until(until), seconds=timeout_seconds))


def _checked(text: str) -> dict[str, Any]:
    """Return the one job of a text as it was written.

    Raises:
        ClickException: it is not valid.
    """
    try:
        read_job(text)
    except InvalidObjectError as error:
        raise click.ClickException("; ".join(error.messages)) from error
    (found,) = [each for each in documents(text) if each.get("kind") == "HetRLJob"]
    return found


def _applied(connection: Connection, manifest: dict[str, Any]) -> str:
    applied = connection.apply(manifest)
    metadata = applied["metadata"]
    is_new = metadata.get("generation") == 1 and not applied.get("status")
    what = "created" if is_new else "applied"
    say(f"hetrljob {metadata['namespace']}/{metadata['name']} {what}")
    return str(metadata["name"])
