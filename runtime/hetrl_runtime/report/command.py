"""``hetrl report``: writes the report of a run into its folder."""

import json
from pathlib import Path

import click

from hetrl_runtime.report import plots
from hetrl_runtime.report.page import page
from hetrl_runtime.report.record import NoRunError, read
from hetrl_runtime.report.summary import summary


@click.command("report")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
def command(run: Path) -> None:
    """Write plots and one HTML page about a RUN, the folder that `hetrl run` wrote.

    They go into RUN/report: index.html, which needs no other file; reward.png,
    staleness.png, throughput.png and idle.png; and summary.json, the figures for programs.
    """
    try:
        record = read(run)
    except NoRunError as error:
        raise click.ClickException(str(error)) from error
    folder = run / "report"
    folder.mkdir(exist_ok=True)
    drawn = (plots.reward, plots.staleness, plots.throughput, plots.idle) if record.steps else ()
    figures = {draw.__name__: draw(record) for draw in drawn}
    for name, figure in figures.items():
        (folder / f"{name}.png").write_bytes(plots.to_png(figure))
    (folder / "summary.json").write_text(json.dumps(summary(record), indent=1) + "\n")
    index = folder / "index.html"
    index.write_text(page(record, figures))
    click.echo(index)
