"""``hetrl status``: all jobs in a table, or one with its plan, progress, pods and conditions."""

import json
from collections.abc import Iterable, Mapping

import click
import yaml
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hetrl_cli.cluster.connection import Connection, Object, connect, event_time
from hetrl_cli.console import console
from hetrl_cli.jobs.job_view import UNKNOWN, JobView, ago, figure, pod_columns, span
from hetrl_cli.jobs.options import cluster_options, everywhere_option
from hetrl_cli.say import say
from hetrl_cli.tables.table import pairs, titled
from hetrl_operator.model.labels import REPLACED_AT, REPLACED_BECAUSE

_EVENTS_SHOWN = 5
_STYLES = {
    "Running": "green",
    "Succeeded": "green",
    "Failed": "bold red",
    "Suspended": "yellow",
    "Suspending": "yellow",
    "Restarting": "yellow",
}


@click.command("status")
@click.argument("name", required=False)
@everywhere_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="json and yaml give the objects as the API server has them.",
)
@cluster_options
def command(
    *,
    name: str | None,
    is_everywhere: bool,
    output: str,
    context: str | None,
    namespace: str | None,
) -> None:
    """Show the state of jobs; of one job, all details."""
    connection = connect(context=context, namespace=namespace)
    if name:
        job = connection.job(name)
        _print(job, output) if output != "table" else _show_one(connection, JobView(job))
        return
    jobs = connection.jobs(everywhere=is_everywhere)
    if output != "table":
        _print({"apiVersion": "v1", "kind": "List", "items": jobs}, output)
    elif jobs:
        console().print(listed([JobView(each) for each in jobs], with_namespace=is_everywhere))
    else:
        where = "any namespace" if is_everywhere else f"namespace {connection.namespace}"
        say(f"no HetRLJobs in {where}")


def listed(jobs: list[JobView], *, with_namespace: bool) -> Table:
    """Return a table of jobs, one a line."""
    table = Table(box=None, header_style="bold")
    for title in ("namespace",) * with_namespace + ("name", "phase", "steps"):
        table.add_column(title, no_wrap=True)
    pods = pod_columns(jobs)
    for title in ("reward", "samples/s", "staleness", *pods, "$/h", "left", "age"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("why", overflow="ellipsis", no_wrap=True)
    for job in jobs:
        table.add_row(*([job.namespace] if with_namespace else []), *_row(job, pods.values()))
    return table


def phase(job: JobView) -> Text:
    """Return a job's phase in its colour."""
    return Text(job.phase, style=_STYLES.get(job.phase, ""))


def _row(job: JobView, roles: Iterable[str]) -> list[RenderableType]:
    progress = job.progress
    return [
        job.name,
        phase(job),
        job.steps,
        figure(progress.get("reward"), ".3f"),
        figure(progress.get("samplesPerSecond"), ".1f"),
        f"{figure(progress.get('stalenessP95'), '.0f')} of {job.max_staleness}",
        *(job.ready(each) for each in roles),
        figure(job.plan.get("dollarsPerHour")),
        left(job),
        ago(job.job["metadata"].get("creationTimestamp")),
        job.why,
    ]


def left(job: JobView) -> str:
    """Return the reported time until a job's end."""
    seconds = job.seconds_left
    return UNKNOWN if seconds is None else span(seconds)


def _show_one(connection: Connection, job: JobView) -> None:
    parts: list[RenderableType] = [_head(job)]
    sections = {
        "Preflight": of_preflight(job),
        "Plan": of_plan(job),
        "Progress": of_progress(job),
    }
    for title, rows in sections.items():
        if rows:
            parts += [Text(), pairs(title, rows)]
    if plans := connection.plans(job.name, followed=job.plan.get("name")):
        parts += [Text(), of_plans(job, plans)]
    if job.status.get("podSets"):
        parts += [Text(), _pod_sets(job)]
    if job.conditions:
        parts += [Text(), _conditions(job)]
    if events := connection.events(job.job):
        parts += [Text(), _events(events[-_EVENTS_SHOWN:])]
    console().print(Group(*parts))


def _head(job: JobView) -> Text:
    age = ago(job.job["metadata"].get("creationTimestamp"))
    head = Text.assemble((job.name, "bold"), f" in {job.namespace}: ", phase(job), f", {age} old")
    return head.append(f"\n{job.why}", style="yellow") if job.why else head


def of_preflight(job: JobView) -> list[tuple[str, str]]:
    """Return rows on what a job's preflight found that does not stop it."""
    notes = job.status.get("preflight", {}).get("notes") or ()
    return [("note", str(each)) for each in notes]


def of_plan(job: JobView) -> list[tuple[str, str]]:
    """Return rows on a job's plan; none if it has no plan."""
    plan = job.plan
    if not plan:
        return []
    gap = plan.get("gapRatio")
    return [
        ("name", f"{plan.get('name')}, by {plan.get('strategy', UNKNOWN)}"),
        ("step", f"{figure(plan.get('predictedStepSeconds'))} s predicted"),
        ("samples/s", f"{figure(plan.get('samplesPerSecond'))} predicted"),
        ("price", f"{figure(plan.get('dollarsPerHour'))} $/h"),
        ("binds", str(plan.get("bottleneck", UNKNOWN))),
        ("gap to bound", "not known" if gap is None else f"{100 * gap:.2f} %"),
        *_replan(job),
    ]


def _replan(job: JobView) -> list[tuple[str, str]]:
    last = job.status.get("lastReplan")
    if not last:
        return []
    said = f"{ago(last['time'])} ago, for {last['reason']}: {last['outcome']}; {last['message']}"
    return [("another plan", said)]


def of_plans(job: JobView, plans: list[Object]) -> Table:
    """Return a table of a job's plans, with the reasons why previous ones were replaced."""
    table = Table(title="Plans", title_justify="left", box=None, header_style="bold")
    table.add_column("name", no_wrap=True)
    for title in ("GPUs", "samples/s", "$/h", "age"):
        table.add_column(title, justify="right")
    table.add_column("", overflow="fold")
    for each in plans:
        metadata, spec = each["metadata"], each["spec"]
        notes = metadata.get("annotations") or {}
        is_followed = metadata["name"] == job.plan.get("name")
        table.add_row(
            metadata["name"],
            str(spec["numGPUs"]),
            figure(spec["prediction"]["samplesPerSecond"]),
            figure(spec["prediction"]["dollarsPerHour"]),
            ago(metadata.get("creationTimestamp")),
            "followed" if is_followed else _why_past(notes),
            style="" if is_followed else "dim",
        )
    return table


def _why_past(notes: Mapping[str, str]) -> str:
    if REPLACED_AT not in notes:
        return ""
    return f"until {ago(notes[REPLACED_AT])} ago; {notes.get(REPLACED_BECAUSE, '')}"


def of_progress(job: JobView) -> list[tuple[str, str]]:
    """Return rows on a job's progress; none before there is any."""
    progress = job.progress
    if not progress:
        return []
    return [
        ("steps", f"{job.steps} ({100 * job.share_done:.0f} %), {left(job)} left"),
        ("samples/s", figure(progress.get("samplesPerSecond"), ".1f")),
        ("reward", figure(progress.get("reward"), ".3f")),
        (
            "staleness",
            f"{figure(progress.get('stalenessP95'), '.0f')} at the 95th percentile, "
            f"bound {job.max_staleness}",
        ),
        ("restarts", str(job.status.get("restarts", 0))),
        *(("notice", str(each)) for each in progress.get("notices") or ()),
        ("reported", f"{ago(progress.get('lastUpdateTime'))} ago"),
    ]


def _pod_sets(job: JobView) -> Table:
    table = titled("Pods", "set", "role", "GPU", "ready")
    for each in job.status["podSets"]:
        ready = f"{each.get('readyReplicas', 0)}/{each.get('replicas', 0)}"
        table.add_row(each["name"], each["role"], each.get("gpuKind") or UNKNOWN, ready)
    return table


def _conditions(job: JobView) -> Table:
    table = titled("Conditions", "type", "status", "since", "reason", "message")
    for each in job.conditions:
        since = ago(each.get("lastTransitionTime"))
        table.add_row(each["type"], each["status"], since, each["reason"], each["message"])
    return table


def _events(events: list[Object]) -> Table:
    table = titled("Last events", "ago", "type", "reason", "message")
    for each in events:
        table.add_row(ago(event_time(each)), each.get("type"), each["reason"], each["message"])
    return table


def _print(found: Object, output: str) -> None:
    text = json.dumps(found, indent=1) if output == "json" else yaml.safe_dump(dict(found))
    say(text.rstrip("\n"))
