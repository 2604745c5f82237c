"""``hetrl top``: the jobs of a cluster, live, with how far each has come."""

import time
from math import inf

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hetrl_cli.cluster.connection import Connection, connect
from hetrl_cli.console import console
from hetrl_cli.jobs.job_view import JobView, figure, pod_columns
from hetrl_cli.jobs.options import cluster_options, everywhere_option
from hetrl_cli.jobs.status import left, phase

_BAR_WIDTH = 24


@click.command("top")
@everywhere_option
@click.option(
    "--every",
    "every_seconds",
    type=click.FloatRange(min=0.5),
    default=2.0,
    show_default=True,
    help="Seconds between updates.",
)
@click.option("--once", "is_once", is_flag=True, help="Print one table; as without a terminal.")
@cluster_options
def command(
    *,
    is_everywhere: bool,
    every_seconds: float,
    is_once: bool,
    context: str | None,
    namespace: str | None,
) -> None:
    """Watch the progress of jobs until interrupted; the slowest to finish is last."""
    connection = connect(context=context, namespace=namespace)
    screen = console()
    if is_once or not screen.is_terminal:
        screen.print(_view(connection, is_everywhere=is_everywhere))
        return
    with Live(console=screen, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_view(connection, is_everywhere=is_everywhere), refresh=True)
            time.sleep(every_seconds)


def _view(connection: Connection, *, is_everywhere: bool) -> RenderableType:
    jobs = [JobView(each) for each in connection.jobs(everywhere=is_everywhere)]
    return Group(summary(jobs), Text(), steps(jobs, with_namespace=is_everywhere))


def summary(jobs: list[JobView]) -> Text:
    """Return one line on all jobs together."""
    running = [each for each in jobs if each.phase == "Running"]
    rate = sum(each.progress.get("samplesPerSecond") or 0.0 for each in running)
    dollars = sum(each.plan.get("dollarsPerHour") or 0.0 for each in running)
    return Text.assemble(
        (f"{len(jobs)} jobs", "bold"),
        f", {len(running)} running: {rate:.1f} samples/s, {dollars:.2f} $/h",
    )


def steps(jobs: list[JobView], *, with_namespace: bool) -> Table:
    """Return a table of jobs with progress bars: running jobs first, by remaining time."""
    table = Table(box=None, header_style="bold")
    table.add_column("job", no_wrap=True)
    table.add_column("phase", no_wrap=True)
    table.add_column("steps", width=_BAR_WIDTH)
    pods = pod_columns(jobs)
    for title in ("", "left", "samples/s", "reward", "staleness", *pods):
        table.add_column(title, justify="right", no_wrap=True)
    for job in sorted(jobs, key=_order):
        progress = job.progress
        table.add_row(
            f"{job.namespace}/{job.name}" if with_namespace else job.name,
            phase(job),
            ProgressBar(total=1.0, completed=job.share_done, width=_BAR_WIDTH),
            job.steps,
            left(job),
            figure(progress.get("samplesPerSecond"), ".1f"),
            figure(progress.get("reward"), ".3f"),
            f"{figure(progress.get('stalenessP95'), '.0f')} of {job.max_staleness}",
            *(job.ready(each) for each in pods.values()),
        )
    return table


def _order(job: JobView) -> tuple[bool, float, str, str]:
    seconds = job.seconds_left
    return (job.phase != "Running", inf if seconds is None else seconds, job.namespace, job.name)
