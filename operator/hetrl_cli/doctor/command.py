"""``hetrl doctor``: prints findings with their remedies, and ends 1 if one is a problem."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

import click
from rich.text import Text

from hetrl_cli.cluster.connection import connect
from hetrl_cli.console import console
from hetrl_cli.doctor import installation, job, machines, queue
from hetrl_cli.doctor.facts import Facts, facts_of
from hetrl_cli.doctor.finding import Finding, Weight
from hetrl_cli.jobs.options import cluster_options
from hetrl_cli.say import say

_STYLES = {Weight.PROBLEM: "bold red", Weight.NOTE: "yellow"}


@click.command("doctor")
@click.argument("name", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to print findings.",
)
@cluster_options
def command(*, name: str | None, output: str, context: str | None, namespace: str | None) -> None:
    """Show why HetRL, or the job NAME, does not work on this cluster, with remedies.

    Ends 1 if there is a problem. Changes nothing.
    """
    facts = facts_of(connect(context=context, namespace=namespace), name=name)
    found = diagnosis(facts)
    if output == "json":
        document = {
            "kind": "Diagnosis",
            "findings": [asdict(each) for each in found],
            "unseen": list(facts.unseen),
        }
        say(json.dumps(document, indent=1))
    else:
        _show(found, facts)
    sys.exit(any(each.weight is Weight.PROBLEM for each in found))


def diagnosis(facts: Facts) -> list[Finding]:
    """Return every finding, problems first."""
    rooms = (installation, machines, job, queue)
    found = [finding for room in rooms for finding in room.findings(facts)]
    return sorted(found, key=lambda each: each.weight is not Weight.PROBLEM)


def _show(found: Sequence[Finding], facts: Facts) -> None:
    screen = console()
    for each in found:
        line = Text.assemble((each.weight.value, _STYLES[each.weight]), f"  {each.about}: ")
        screen.print(line.append(each.said), soft_wrap=True)
        screen.print(Text(f"    {each.remedy}", style="dim"), soft_wrap=True)
    for unseen in facts.unseen:
        screen.print(Text(f"not checked  {unseen}", style="dim"), soft_wrap=True)
    if not found:
        screen.print("no problem found")
