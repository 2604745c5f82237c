"""``hetrl plan``: a plan of a job, and its prediction. Creates nothing."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from hetrl_api.load import parse
from hetrl_api.plan.plan import HetRLPlan
from hetrl_api.plan.to_core import from_plan, to_plan
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_cli.console import console
from hetrl_cli.files import job_file_option, read_job
from hetrl_cli.picture.option import checked, write_picture
from hetrl_cli.planning_progress import planning_progress
from hetrl_cli.say import say
from hetrl_cli.tables.plan import show_frontier, show_plan
from hetrl_cli.topology_option import requested_fleet, topology_option
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.capabilities import obstacles
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_planner.plan_job import plan
from hetrl_planner.whatif.bottlenecks import Explanation, explanation
from hetrl_planner.whatif.frontier import frontier


@click.command("plan")
@job_file_option
@topology_option
@click.option("--context", help="The kubeconfig's context, if the fleet is a cluster.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print the plan; json and yaml give a HetRLPlan.",
)
@click.option(
    "--runnable", is_flag=True, help="Only plans that this release can run, not just preview."
)
@click.option("--explain", is_flag=True, help="Show idle shares, and the value of one more GPU.")
@click.option(
    "--frontier",
    "frontier_points",
    type=click.IntRange(2, 50),
    is_flag=False,
    flag_value=8,
    help="Plan for this many budgets instead, and list what each buys.  [default: 8]",
)
@click.option(
    "--diff",
    "compared_with",
    metavar="[HETRLPLAN]",
    is_flag=False,
    flag_value="",
    help="Show the difference from the plan that the job follows on the cluster, or from another "
    "HetRLPlan there.",
)
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=checked,
    help="Also draw the plan: machines, links, stages, flows, into FILE.svg or FILE.png.",
)
def command(
    *,
    job_file: Path,
    topology: Path | None,
    context: str | None,
    output: str,
    runnable: bool,
    explain: bool,
    frontier_points: int | None,
    compared_with: str | None,
    picture: Path | None,
) -> None:
    """Plan a job: show placement, speed, price and bottleneck.

    Ends 0 with a plan, 2 with the reasons why there is none, 1 if the input is invalid.
    """
    is_compared = compared_with is not None
    if frontier_points and (picture or is_compared):
        raise click.ClickException("--picture and --diff are of one plan: --frontier makes several")
    try:
        job = read_job(job_file)
        machines = requested_fleet(topology, context=context)
        fleet, left_out = machines.snapshot(job.resources), machines.left_out(job.resources)
        warnings = machines.warnings(job.resources)
    except InvalidObjectError as error:
        raise click.ClickException("; ".join(error.messages)) from error
    if frontier_points:
        _frontier(fleet, job, points=frontier_points, output=output, runnable=runnable)
        return
    with planning_progress(job.planning.time_budget_seconds) as should_stop:
        outcome = plan(fleet, job, should_stop=should_stop, runnable_only=runnable or is_compared)
    if isinstance(outcome, Infeasible):
        _refuse(outcome, output=output, left_out=left_out)
    else:
        notes = (*left_out, *warnings, *_assumed(fleet), *_notes(outcome, job))
        if compared_with is not None:
            _compare(outcome, job, compared_with, context=context, notes=notes)
            return
        why = explanation(fleet, job, outcome, runnable_only=runnable) if explain else None
        _print(outcome, job, fleet, output=output, notes=notes, why=why)
        if picture:
            write_picture(picture, outcome, fleet, job)
            say(f"drawn: {picture}", err=True)


def _compare(
    found: Plan, job: JobSpec, other: str, *, context: str | None, notes: Sequence[str]
) -> None:
    # Only --diff needs a connection to a cluster.
    from hetrl_cli.cluster.connection import connect  # noqa: PLC0415
    from hetrl_cli.tables.difference import show_difference  # noqa: PLC0415

    connection = connect(context=context, namespace=job.namespace)
    name = other or (connection.job(job.name).get("status") or {}).get("plan", {}).get("name")
    if not name:
        raise click.ClickException(f"--diff: {job.namespace}/{job.name} follows no plan yet")
    followed = to_plan(parse(HetRLPlan, connection.plan(name)).spec)
    others = "GPUs that other jobs hold now are planned with as if they were free"
    show_difference(console(), followed, found, name=name, notes=(*notes, others))


def _frontier(
    fleet: ClusterSnapshot, job: JobSpec, *, points: int, output: str, runnable: bool
) -> None:
    with planning_progress(points * job.planning.time_budget_seconds) as should_stop:
        found = frontier(fleet, job, points=points, runnable_only=runnable, should_stop=should_stop)
    if isinstance(found, Infeasible):
        _refuse(found, output=output, left_out=())
    elif output == "table":
        show_frontier(console(), found)
    else:
        plans = {"kind": "Frontier", "plans": [as_object(each, job) for each in found]}
        say(_text(plans, output), nl=False)


def _assumed(fleet: ClusterSnapshot) -> tuple[str, ...]:
    """Say which regions are planned with a default network."""
    pairs = fleet.unlinked_regions
    if not pairs:
        return ()
    source, target = pairs[0]
    others = f" (and {len(pairs) - 1} more)" if len(pairs) > 1 else ""
    return (
        f"no link is given between {source} and {target}{others}: 1 Gbit/s and 60 ms are assumed; "
        "describe it in spec.links of a HetRLTopology",
    )


def _notes(found: Plan, job: JobSpec) -> tuple[str, ...]:
    barred = obstacles(found, job)
    if not barred:
        return ()
    return (*barred, "this plan is a preview; --runnable plans what this release can run")


def _print(
    found: Plan,
    job: JobSpec,
    fleet: ClusterSnapshot,
    *,
    output: str,
    notes: tuple[str, ...],
    why: Explanation | None,
) -> None:
    if output == "table":
        show_plan(console(), found, job, fleet, notes, why=why)
        return
    say(_text(as_object(found, job), output), nl=False)
    for note in notes:
        say(f"note: {note}", err=True)


def as_object(found: Plan, job: JobSpec) -> dict[str, Any]:
    """Return a plan as the HetRLPlan that the operator would store."""
    made = HetRLPlan.model_validate(
        {
            "apiVersion": "hetrl.dev/v1alpha1",
            "kind": "HetRLPlan",
            "metadata": {"name": job.name, "namespace": job.namespace},
            "spec": from_plan(found),
        }
    )
    return made.model_dump(mode="json", by_alias=True, exclude_none=True)


def _refuse(outcome: Infeasible, *, output: str, left_out: tuple[str, ...]) -> None:
    if output != "table":
        say(_text({"kind": "Infeasible", "reasons": list(outcome.reasons)}, output), nl=False)
    say("Error: no plan: " + "; ".join(outcome.reasons), err=True)
    for each in left_out:
        say(f"note: {each}", err=True)
    sys.exit(2)


def _text(value: dict[str, Any], output: str) -> str:
    if output == "json":
        return json.dumps(value, indent=1) + "\n"
    return yaml.safe_dump(value, sort_keys=False)
