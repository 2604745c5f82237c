"""``hetrl dashboard``: the boards in a browser, from a Prometheus or from what runs recorded."""

import asyncio
import contextlib
import signal
from pathlib import Path

import click
from aiohttp import web

from hetrl_cli.cluster.connection import connect
from hetrl_cli.dashboard.hosts import allowed_hosts, is_loopback
from hetrl_cli.dashboard.server import application
from hetrl_cli.dashboard.sources.cluster_job import ClusterJobRecorder
from hetrl_cli.dashboard.sources.prometheus import Prometheus
from hetrl_cli.dashboard.sources.runs import Runs
from hetrl_cli.dashboard.sources.source import Source
from hetrl_cli.jobs.options import cluster_options
from hetrl_cli.say import say
from hetrl_operator.http.listener import served

PORT = 8642
_RUNS = Path("runs")


@click.command("dashboard")
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--prometheus", "url", metavar="URL", help="Show what a Prometheus has scraped.")
@click.option(
    "--job",
    metavar="NAME",
    help="Show a job of a cluster that has no Prometheus, and record it in FOLDER.",
)
@cluster_options
@click.option(
    "--scrape-seconds",
    type=click.FloatRange(min=0.1),
    default=15.0,
    show_default=True,
    help="How often that Prometheus scrapes.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen on; 0: any.",
)
@click.option(
    "--allow-host",
    "names",
    metavar="NAME",
    multiple=True,
    help="Answer under this name too; addresses, localhost and this machine's name are answered.",
)
@click.option("--open/--no-open", "opens", default=False, help="Open it in the browser.")
def command(
    *,
    folder: Path | None,
    url: str | None,
    job: str | None,
    context: str | None,
    namespace: str | None,
    scrape_seconds: float,
    host: str,
    port: int,
    names: tuple[str, ...],
    opens: bool,
) -> None:
    """Show jobs in a browser, live: throughput, staleness, idle shares, reward, price.

    Of the runs in FOLDER (unset: runs), which may be one run's own; of one job of a cluster, whose
    pods are asked through the API server; or of a cluster, through the Prometheus that scrapes it.
    The panels are those of the Grafana dashboards in the chart. Nothing is fetched from elsewhere.
    Runs until interrupted.
    """
    if url and (folder or job):
        raise click.UsageError(f"either {'--job' if job else 'a FOLDER'} or --prometheus, not both")
    recorder = None
    if job:
        connection = connect(context=context, namespace=namespace)
        recorder = ClusterJobRecorder(connection, job, folder or _RUNS)
        folder = recorder.folder.path
    with contextlib.suppress(KeyboardInterrupt):
        source = _source(folder, url, scrape_seconds)
        app = application(source, allowed_hosts(listens_on=host, more=names))
        asyncio.run(_serve(app, source.name, recorder, host, port, opens=opens))


def _source(folder: Path | None, url: str | None, scrape_seconds: float) -> Source:
    if url:
        if not url.startswith(("http://", "https://")):
            raise click.UsageError(f"--prometheus: {url!r} does not begin with http:// or https://")
        return Prometheus(url, scrape_seconds=scrape_seconds)
    found = folder or _RUNS
    if not found.is_dir():
        raise click.UsageError(f"no folder {found}: name one of hetrl run, --job or --prometheus")
    return Runs(found)


async def _serve(
    app: web.Application,
    name: str,
    recorder: ClusterJobRecorder | None,
    host: str,
    port: int,
    *,
    opens: bool,
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        if recorder:
            stack.push_async_callback(_cancelled, asyncio.ensure_future(recorder.record()))
        try:
            found = await stack.enter_async_context(served(app, port=port, host=host))
        except OSError as error:
            raise click.ClickException(
                f"cannot listen on {host}:{port}: {error.strerror}; --port names another"
            ) from error
        address = f"http://{host}:{found}"
        say(f"{name}: {address}")
        if not is_loopback(host):
            say(f"warning: all who reach {host} can read this: there is no password", err=True)
        if opens:
            click.launch(address)
        await _stopped()


async def _cancelled(recording: asyncio.Future[None]) -> None:
    recording.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await recording


async def _stopped() -> None:
    stop = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    await stop.wait()
