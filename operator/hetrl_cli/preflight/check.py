"""The command ``hetrl check``: the preflight of a job, on this machine."""

import tempfile
from pathlib import Path

import click

from hetrl_cli.files import claims_option, job_file_option, read_spec
from hetrl_cli.preflight.process import ask, last_line
from hetrl_cli.say import say
from hetrl_core.job.spec import JobSpec
from hetrl_core.preflight import PreflightReport, report_from_json

CHECK_SECONDS = 1800.0


@click.command("check")
@job_file_option
@claims_option
def command(job_file: Path, claims: tuple[tuple[str, Path], ...]) -> None:
    """Check the models, the data and the reward of a job, as a cluster does before any GPU is used.

    Ends with 0 when the job can run, and with 1 when it cannot; the message says why.
    """
    spec = read_spec(job_file, claims)
    report = _checked(spec)
    for note in report.notes:
        say(f"note: {note}")
    if not report.passed:
        raise click.ClickException(f"{report.reason}: {report.message}")
    say(f"{spec.name}: models, data and reward are as they must be")


def _checked(spec: JobSpec) -> PreflightReport:
    """Run the preflight as a pod does.

    Raises:
        ClickException: it ends without a report.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        done = ask(
            spec,
            *("preflight", "--report", str(report)),
            folder=Path(folder),
            timeout_seconds=CHECK_SECONDS,
        )
        if report.exists():
            return report_from_json(report.read_text())
    raise click.ClickException(last_line(done))
