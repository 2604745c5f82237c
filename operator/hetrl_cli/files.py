"""Input files of commands: jobs, and the models that they name."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from hetrl_api import load
from hetrl_api.job.to_core import to_spec
from hetrl_cli.say import say
from hetrl_core.job.architecture import contradictions, from_hugging_face
from hetrl_core.job.known_dimensions import known_dimensions
from hetrl_core.job.spec import DataSpec, JobSpec, ModelFiles
from hetrl_core.model.check import ModelFacts, ModelProblems, Use, checked
from hetrl_core.model.context import Lengths

STANDARD_INPUT = Path("-")

job_file_option = click.option(
    "-f",
    "--file",
    "job_file",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="The HetRLJob, as YAML; - for standard input.",
)


class _Claim(click.ParamType[tuple[str, Path]]):
    """``NAME=FOLDER``."""

    name = "NAME=FOLDER"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Path]:
        name, separator, folder = value.partition("=")
        if not separator or not name:
            self.fail(f"{value!r} is not NAME=FOLDER", param, ctx)
        if not Path(folder).is_dir():
            self.fail(f"no folder {folder}, to stand for claim {name}", param, ctx)
        return name, Path(folder).resolve()


claims_option = click.option(
    "--claim",
    "claims",
    type=_Claim(),
    multiple=True,
    help="Folder that stands for a PersistentVolumeClaim; may be repeated.",
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


def read_spec(path: Path, claims: Iterable[tuple[str, Path]]) -> JobSpec:
    """Return the job of a file as it is written, with folders in the place of its claims.

    Raises:
        ClickException: the file cannot be read.
        InvalidObjectError: the file is not a job.
    """
    folder = Path.cwd() if path == STANDARD_INPUT else path.resolve().parent
    job = load.read_job(read_text(path))
    return to_spec(job, base_path=folder, claims=dict(claims), now=datetime.now(UTC))


def read_job(path: Path) -> JobSpec:
    """Return the job of a file, its model's dimensions filled in where they are to be had.

    Raises:
        ClickException: the file cannot be read, or a model of the job cannot be used.
        InvalidObjectError: the file is not a job.
    """
    folder = Path.cwd() if path == STANDARD_INPUT else path.resolve().parent
    job = load.load_job(read_text(path), base_path=folder)
    return with_models_checked(job, needs_weights=False)


def with_models_checked(job: JobSpec, *, needs_weights: bool) -> JobSpec:
    """Check the models of a job that are on this machine, and fill in the policy's dimensions.

    A model that is not on this machine has the dimensions that the job gives, else those of the
    table of known models, else ``None``; the caller decides whether that matters. Without
    ``needs_weights`` a ``config.json`` is enough.

    Raises:
        ClickException: a model cannot be used, or is not what the job says of it.
    """
    data = job.data
    if data.model:
        _facts(data.model, Use.REWARD, needs_weights=needs_weights)
    facts = _facts(job.model, Use.CAUSAL, data.lengths, needs_weights=needs_weights)
    if facts is None:
        return _with_known_dimensions(job)
    try:
        found = from_hugging_face(facts.config)
    except ValueError as error:
        raise click.ClickException(ModelProblems((str(error),)).of(job.model.source)) from error
    if given := job.model.architecture:
        if odd := contradictions(given, found):
            what = f"model {job.model.source} ({facts.config.get('model_type')})"
            raise click.ClickException(f"{what} is not what the job says: {'; '.join(odd)}")
        return job
    return replace(job, model=replace(job.model, architecture=found))


def _with_known_dimensions(job: JobSpec) -> JobSpec:
    """Fill in the dimensions of a well-known model of the Hub, and say that they are from there."""
    known = None if job.model.architecture else known_dimensions(job.model)
    if known is None:
        return job
    say(f"note: {known.origin}", err=True)
    return replace(job, model=replace(job.model, architecture=known.architecture))


def _facts(
    model: ModelFiles, use: Use, lengths: Lengths | None = None, *, needs_weights: bool
) -> ModelFacts | None:
    """Return what a model is; None where it is not on this machine.

    Raises:
        ClickException: it cannot be used.
    """
    folder = Path(model.source)
    if not model.is_path or not (folder / "config.json").is_file():
        return None
    try:
        found = checked(
            [each.name for each in folder.iterdir()],
            lambda name: (folder / name).open("rb"),
            use=use,
            lengths=lengths,
            needs_weights=needs_weights,
        )
    except OSError as error:
        raise click.ClickException(f"cannot read {folder}: {error}") from error
    if isinstance(found, ModelProblems):
        raise click.ClickException(found.of(model.source))
    for warning in found.warnings:
        say(f"Warning: model {model.source}: {warning}", err=True)
    return found


def data_of_job(path: Path, claims: Mapping[str, Path]) -> DataSpec:
    """Return the data part of a job's file; the entry point by which `hetrl reward -f` reads it."""
    return read_spec(path, claims.items()).data
