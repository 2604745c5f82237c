"""A job followed for a while: a line for each event and each step, and how it went."""

from collections.abc import Iterator
from enum import StrEnum

import click

from hetrl_cli.cluster.connection import Connection, event_time
from hetrl_cli.jobs.options import moments
from hetrl_cli.jobs.standing import Standing, figure
from hetrl_operator.model.reasons import ConditionType, Reason

WELL, BADLY, NO_PLAN = 0, 1, 2
"""Exit codes, as of ``hetrl plan``."""


class Until(StrEnum):
    """What is waited for."""

    PLANNED = "planned"
    RUNNING = "running"
    ENDED = "ended"


def follow(connection: Connection, name: str, *, until: Until, seconds: float) -> int:
    """Print what is new until a job has come so far; return how that went.

    Raises:
        ClickException: it has not come so far within so many seconds.
    """
    said: set[str] = set()
    for _ in moments(seconds, what=f"{name} is not {until}; it goes on without being followed"):
        standing = Standing(connection.job(name))
        for line in (*_events(connection, standing), *_step(standing)):
            if line not in said:
                said.add(line)
                click.echo(line)
        code = _reached(standing, until)
        if code is not None:
            return code
    raise AssertionError("moments ends by raising")


def _reached(standing: Standing, until: Until) -> int | None:
    """Return the exit code of a job that has come so far, or has ended before."""
    if standing.has_succeeded is not None:
        return WELL if standing.has_succeeded else BADLY
    if until is Until.RUNNING:
        running = standing.condition(ConditionType.RUNNING) or {}
        return WELL if running.get("status") == "True" else None
    if until is Until.PLANNED:
        return _planned(standing)
    return None


def _planned(standing: Standing) -> int | None:
    planned = standing.condition(ConditionType.PLANNED) or {}
    if planned.get("status") == "True":
        click.echo(f"planned: {planned.get('message')}")
        return WELL
    if planned.get("status") == "False" and planned.get("reason") != Reason.PLANNING:
        click.echo(f"no plan: {planned.get('reason')}: {planned.get('message')}", err=True)
        return NO_PLAN
    return None


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
