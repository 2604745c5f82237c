"""The option ``--picture FILE``: its validation before planning, and the file at the end."""

from pathlib import Path

import click

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan

SUFFIXES = (".svg", ".png")


def checked(_context: click.Context, _parameter: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a file that could not be drawn, before the search and not after it.

    Raises:
        ClickException: its suffix names no format that is drawn, or its folder is missing.
    """
    if path is None:
        return None
    if path.suffix.lower() not in SUFFIXES:
        found = f"ends in {path.suffix!r}" if path.suffix else "has no suffix"
        allowed = " and ".join(SUFFIXES)
        raise click.ClickException(f"--picture: {path} {found}; allowed are {allowed}")
    if not path.parent.is_dir():
        raise click.ClickException(f"--picture: there is no folder {path.parent} for {path.name}")
    return path


def write_picture(path: Path, plan: Plan, snapshot: ClusterSnapshot, job: JobSpec) -> None:
    """Draw a plan into a file, in the format that its suffix says.

    Raises:
        ClickException: matplotlib is not installed, or the file cannot be written.
    """
    try:
        # A second of imports that only --picture needs, and an optional extra.
        from hetrl_cli.picture.sheet import sheet  # noqa: PLC0415
    except ImportError as error:
        raise click.ClickException(
            f"--picture needs {error.name}: install hetrl with its report extra"
        ) from error
    try:
        path.write_bytes(sheet(plan, snapshot, job).to_bytes(path.suffix[1:].lower()))
    except OSError as error:
        raise click.ClickException(f"cannot draw {path}: {error}") from error
