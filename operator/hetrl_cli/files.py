"""Input files of commands: jobs, and a model's ``config.json``."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import click

from hetrl_api.load import load_job
from hetrl_core.job.architecture import from_hugging_face
from hetrl_core.job.spec import JobSpec, ModelSpec

STANDARD_INPUT = Path("-")

job_file_option = click.option(
    "-f",
    "--file",
    "job_file",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="The HetRLJob, as YAML; - for standard input.",
)


def read_text(path: Path) -> str:
    """Return a file's text, or standard input for ``-``.

    Raises:
        ClickException: it cannot be read.
    """
    try:
        return sys.stdin.read() if path == STANDARD_INPUT else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"cannot read {path}: {error}") from error


def read_job(path: Path) -> JobSpec:
    """Return the job of a file, its model's dimensions filled in where they are to be had.

    Raises:
        ClickException: the file, or a ``config.json`` of its model, cannot be read.
        InvalidObjectError: the file is not a job.
    """
    folder = Path.cwd() if path == STANDARD_INPUT else path.resolve().parent
    job = load_job(read_text(path), base_path=folder)
    return replace(job, model=with_architecture(job.model))


def with_architecture(model: ModelSpec) -> ModelSpec:
    """Fill in the dimensions that a job leaves to the model's ``config.json``.

    A model that is not on this machine keeps ``None``; the caller decides whether that matters.

    Raises:
        ClickException: there is a ``config.json``, and it is not one of a known family.
    """
    config = Path(model.source) / "config.json"
    if model.architecture is not None or not model.is_path or not config.is_file():
        return model
    try:
        return replace(model, architecture=from_hugging_face(json.loads(read_text(config))))
    except ValueError as error:
        raise click.ClickException(f"{config}: {error}") from error
