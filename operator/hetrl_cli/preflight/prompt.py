"""The command ``hetrl prompt``: what the policy of a job is asked, as its engine gets it."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from hetrl_cli.files import claims_option, job_file_option, read_spec
from hetrl_cli.preflight.process import ask, last_line
from hetrl_cli.say import say
from hetrl_core.job.spec import JobSpec

_RENDER_SECONDS = 900.0


@click.command("prompt")
@job_file_option
@claims_option
@click.option(
    "--row", type=click.IntRange(min=1), default=1, show_default=True, help="Which prompt, from 1."
)
@click.option(
    "--count", type=click.IntRange(min=1), default=1, show_default=True, help="How many prompts."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON line for each, tokens included.")
def command(
    *, job_file: Path, claims: tuple[tuple[str, Path], ...], row: int, count: int, as_json: bool
) -> None:
    """Print prompts of a job exactly as its engine gets them, and how many tokens they are."""
    for each in _rendered(read_spec(job_file, claims), row=row, count=count):
        say(json.dumps(each) if as_json else _shown(each))


def _shown(prompt: dict[str, Any]) -> str:
    fault = f", which cannot be used: {prompt['fault']}" if prompt["fault"] else ""
    place = f"{prompt['set']}, " if prompt["set"] else ""
    head = f"--- {place}line {prompt['line']}: {len(prompt['tokens'])} tokens{fault}"
    return f"{head}\n{prompt['text']}\n--- reference\n{prompt['answer']}"


def _rendered(spec: JobSpec, *, row: int, count: int) -> Iterator[dict[str, Any]]:
    """Let the runtime render prompts.

    Raises:
        ClickException: it cannot.
    """
    with tempfile.TemporaryDirectory() as folder:
        done = ask(
            spec,
            *("render-prompts", "--row", str(row), "--count", str(count)),
            folder=Path(folder),
            timeout_seconds=_RENDER_SECONDS,
        )
    if done.returncode:
        raise click.ClickException(last_line(done))
    return map(json.loads, done.stdout.splitlines())
