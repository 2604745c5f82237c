"""``hetrl logs``: the logs of a job's pods, of one role or of all, one after the other or live.

With several pods, each line begins with its pod.
"""

import threading
from collections.abc import Collection, Mapping
from queue import Empty, SimpleQueue

import click

from hetrl_cli.cluster.connection import Connection, connect
from hetrl_cli.jobs.options import cluster_options
from hetrl_cli.say import say
from hetrl_core.task import Role
from hetrl_operator.model.labels import ROLE

_POLL_SECONDS = 0.5


@click.command("logs")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    help="Only pods of this role.  [default: all]",
)
@click.option("--follow", "-f", "is_followed", is_flag=True, help="Stream new lines.")
@click.option(
    "--tail",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Last lines of each pod.",
)
@click.option(
    "--previous", "-p", is_flag=True, help="Logs of the containers before their last restart."
)
@cluster_options
def command(
    *,
    name: str,
    role: str | None,
    is_followed: bool,
    tail: int,
    previous: bool,
    context: str | None,
    namespace: str | None,
) -> None:
    """Print what a job's pods write."""
    if is_followed and previous:
        raise click.ClickException("--previous is about containers that have ended: no --follow")
    connection = connect(context=context, namespace=namespace)
    connection.job(name)
    # Webhooks may have added containers to the pods; the job's are named after the role.
    pods = {
        str(pod["metadata"]["name"]): str(pod["metadata"]["labels"][ROLE])
        for pod in connection.pods(name, role=role)
        if ROLE in pod["metadata"]["labels"]
    }
    if not pods:
        raise click.ClickException(f"{name} has no {role or ''} pods now".replace("  ", " "))
    if is_followed:
        _follow(connection, pods, tail=tail)
        return
    for pod, container in pods.items():
        for line in connection.log(pod, container, tail=tail, previous=previous):
            say(_marked(pod, line, pods))


def _follow(connection: Connection, pods: Mapping[str, str], *, tail: int) -> None:
    """Print the lines of containers by pod as they come, until all have ended."""
    lines: SimpleQueue[tuple[str, str]] = SimpleQueue()
    until = threading.Event()

    def read(pod: str) -> None:
        try:
            for line in connection.follow(pod, pods[pod], tail=tail, until=until):
                lines.put((pod, line))
        except click.ClickException as error:
            lines.put((pod, f"[{error.message}]"))

    readers = [threading.Thread(target=read, args=(pod,), daemon=True) for pod in pods]
    for reader in readers:
        reader.start()
    try:
        while any(reader.is_alive() for reader in readers) or not lines.empty():
            try:
                pod, line = lines.get(timeout=_POLL_SECONDS)
            except Empty:
                continue
            say(_marked(pod, line, pods))
    finally:
        until.set()


def _marked(pod: str, line: str, pods: Collection[str]) -> str:
    return f"{pod}  {line}" if len(pods) > 1 else line
