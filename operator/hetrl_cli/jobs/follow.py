"""A job followed to its end: a line for each event and each step, and whether it went well."""

import sys
from collections.abc import Iterator

import click

from hetrl_cli.connection import Connection, event_time
from hetrl_cli.jobs.options import moments
from hetrl_cli.jobs.standing import Standing, figure


def follow(connection: Connection, name: str, *, seconds: float) -> None:
    """Print what is new until a job has ended, then leave: 0 if it succeeded, else 1.

    Raises:
        ClickException: it has not ended within so many seconds.
    """
    said: set[str] = set()
    for _ in moments(seconds, what=f"{name} has not ended; it goes on without being followed"):
        standing = Standing(connection.job(name))
        for line in (*_events(connection, standing), *_step(standing)):
            if line not in said:
                said.add(line)
                click.echo(line)
        if standing.has_succeeded is not None:
            sys.exit(0 if standing.has_succeeded else 1)


def _events(connection: Connection, standing: Standing) -> Iterator[str]:
    for event in connection.events(standing.job):
        yield f"{event_time(event)}  {event['reason']}: {event['message']}"


def _step(standing: Standing) -> Iterator[str]:
    progress = standing.progress
    if progress.get("step"):
        yield (
            f"step {standing.steps}  reward {figure(progress.get('reward'), '.3f')}  "
            f"{figure(progress.get('samplesPerSecond'), '.1f')} samples/s  "
            f"staleness p95 {figure(progress.get('stalenessP95'), '.0f')}"
        )
