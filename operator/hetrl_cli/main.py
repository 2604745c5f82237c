"""``hetrl``: the group of all commands, found by name and loaded when they are called.

Commands of other packages are entry points of the group ``hetrl.commands``, so that each
works where the packages of the others are not installed. An error ends as one line and a
non-zero exit code.
"""

import os
import sys
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points, version

import click

from hetrl_cli.say import LAYOUT, say
from hetrl_core.escape import escaped

ENTRY_POINTS = "hetrl.commands"

OWN_COMMANDS = {
    name: EntryPoint(name=name, value=f"hetrl_cli.{value}", group=ENTRY_POINTS)
    for name, value in {
        "check": "preflight.check:command",
        "dashboard": "dashboard.command:command",
        "delete": "jobs.changes:delete",
        "demo": "demo:command",
        "doctor": "doctor.command:command",
        "events": "jobs.events:command",
        "logs": "jobs.logs:command",
        "plan": "plan:command",
        "prompt": "preflight.prompt:command",
        "resume": "jobs.changes:resume",
        "run": "run.command:command",
        "scale": "jobs.changes:scale",
        "simulate": "simulate.command:command",
        "status": "jobs.status:command",
        "submit": "jobs.submit:command",
        "suspend": "jobs.changes:suspend",
        "top": "jobs.top:command",
    }.items()
}

DEBUG_VARIABLE = "HETRL_DEBUG"
"""When set, an unexpected error shows its traceback."""


class Commands(click.Group):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return the names of all commands that are installed."""
        return sorted(_found())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a command, or one that says why it is not available here."""
        found = _found().get(cmd_name)
        return _loaded(found) if found else None

    def invoke(self, ctx: click.Context) -> object:
        """Call a command; what its error says may come from others."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            said = escaped(error.message, keep=LAYOUT)
            if said == error.message:
                raise
            raise click.ClickException(said) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("hetrl"), prog_name="hetrl")
def hetrl() -> None:
    """Plan and run RL post-training on mixed GPUs."""


def main() -> None:
    """Run the command line; the only place where an unexpected error ends."""
    try:
        hetrl()
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        said = " ".join(str(error).split()) or "no message"
        say(f"Error: {type(error).__name__}: {said} ({DEBUG_VARIABLE}=1 shows where)", err=True)
        sys.exit(1)


def _found() -> dict[str, EntryPoint]:
    others = {each.name: each for each in entry_points(group=ENTRY_POINTS)}
    return others | OWN_COMMANDS


def _loaded(found: EntryPoint) -> click.Command:
    try:
        command = getattr(import_module(found.module), found.attr)
    except ImportError as error:
        return _missing(found, error)
    if not isinstance(command, click.Command):
        raise TypeError(f"entry point {found.name} is not a click command: {found.value}")
    return command


def _missing(found: EntryPoint, error: ImportError) -> click.Command:
    said = f"{found.name} cannot run here: {error}"

    @click.command(
        found.name,
        short_help=f"(not installed: {error.name})",
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("arguments", nargs=-1)
    def command(arguments: tuple[str, ...]) -> None:  # noqa: ARG001  # whatever it would take
        raise click.ClickException(said)

    return command
