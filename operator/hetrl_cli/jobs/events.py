"""``hetrl events``: the operator's events about a job, the oldest first."""

import click

from hetrl_cli.cluster.connection import Object, connect, event_time
from hetrl_cli.jobs.job_view import ago
from hetrl_cli.jobs.options import cluster_options
from hetrl_cli.say import say


@click.command("events")
@click.argument("name")
@cluster_options
def command(*, name: str, context: str | None, namespace: str | None) -> None:
    """List the events about a job: plans, starts, restarts, and why things failed."""
    connection = connect(context=context, namespace=namespace)
    events = connection.events(connection.job(name))
    if not events:
        say(f"no events about {name}: the API server keeps them for an hour")
    for event in events:
        say(_line(event))


def _line(event: Object) -> str:
    count = (event.get("series") or {}).get("count") or event.get("count") or 1
    times = f" ({count} times)" if count > 1 else ""
    return (
        f"{ago(event_time(event)):>6}  {event.get('type', 'Normal'):<8}"
        f"{event['reason']}: {event['message']}{times}"
    )
