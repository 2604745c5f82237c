"""Following of a job: a line for each event and each step, and an exit code."""

from collections.abc import Iterator
from enum import StrEnum

from hetrl_cli.cluster.connection import Connection, event_time
from hetrl_cli.jobs.job_view import JobView, figure
from hetrl_cli.jobs.options import poll
from hetrl_cli.say import say
from hetrl_operator.model.reasons import ConditionType, Reason

SUCCEEDED, FAILED, NO_PLAN = 0, 1, 2
"""Exit codes, as of ``hetrl plan``."""


class Until(StrEnum):
    """The state to wait for."""

    PLANNED = "planned"
    RUNNING = "running"
    ENDED = "ended"


def follow(connection: Connection, name: str, *, until: Until, seconds: float) -> int:
    """Print events and steps until a job reaches a state; return the exit code.

    Raises:
        ClickException: it has not reached the state in time.
    """
    printed: set[str] = set()
    for _ in poll(seconds, what=f"{name} is not {until}; it continues, but is no longer followed"):
        view = JobView(connection.job(name))
        for line in (*_events(connection, view), *_step(view)):
            if line not in printed:
                printed.add(line)
                say(line)
        code = _reached(view, until)
        if code is not None:
            return code
    raise AssertionError("poll ends by raising")


def _reached(view: JobView, until: Until) -> int | None:
    """Return the exit code of a job that has reached the state, or has ended before."""
    if view.has_succeeded is not None:
        return SUCCEEDED if view.has_succeeded else FAILED
    if until is Until.RUNNING:
        running = view.condition(ConditionType.RUNNING) or {}
        return SUCCEEDED if running.get("status") == "True" else None
    if until is Until.PLANNED:
        return _planned(view)
    return None


_UNDER_WAY = {Reason.PLANNING, Reason.CHECKING}


def _planned(view: JobView) -> int | None:
    planned = view.condition(ConditionType.PLANNED) or {}
    if planned.get("status") == "True":
        say(f"planned: {planned.get('message')}")
        return SUCCEEDED
    if planned.get("status") == "False" and planned.get("reason") not in _UNDER_WAY:
        say(f"no plan: {planned.get('reason')}: {planned.get('message')}", err=True)
        return NO_PLAN
    return None


def _events(connection: Connection, view: JobView) -> Iterator[str]:
    for event in connection.events(view.job):
        yield f"{event_time(event)}  {event['reason']}: {event['message']}"


def _step(view: JobView) -> Iterator[str]:
    progress = view.progress
    if progress.get("step"):
        yield (
            f"step {view.steps}  reward {figure(progress.get('reward'), '.3f')}  "
            f"{figure(progress.get('samplesPerSecond'), '.1f')} samples/s  "
            f"staleness p95 {figure(progress.get('stalenessP95'), '.0f')}"
        )
