"""The option ``--topology``: a file, standard input, or ``preset:NAME`` for a preset fleet."""

import asyncio
from pathlib import Path

import click

from hetrl_api.fleet.fleet import REGION_LABEL, Fleet
from hetrl_api.fleet.place import PRODUCT_LABEL, Place
from hetrl_api.load import read_fleet
from hetrl_cli.files import read_text
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_planner.presets.fleets import UnknownPreset, preset

PRESET = "preset:"

topology_option = click.option(
    "-t",
    "--topology",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The fleet: HetRLTopology or Node objects, or preset:NAME for one that ships. "
    "Unset: the nodes of the current cluster.",
)


def requested_fleet(topology: Path | None, *, context: str | None) -> Fleet:
    """Return the machines that are named, or those of a cluster.

    Raises:
        ClickException: what is named cannot be read, or there is no cluster.
        InvalidObjectError: the file is not a fleet.
    """
    if topology is not None:
        return fleet_from(topology)
    # Half a second of imports that a fleet file does not need.
    from hetrl_cli.cluster import fleet  # noqa: PLC0415

    try:
        return asyncio.run(fleet.read_fleet(context=context))
    except fleet.NoClusterError as error:
        raise click.ClickException(f"{error}; or give the fleet with --topology FILE") from error


def fleet_from(topology: Path) -> Fleet:
    """Return the machines of a file or of a preset.

    Raises:
        ClickException: the file cannot be read, or no such preset ships.
        InvalidObjectError: the file is not a fleet.
    """
    name = str(topology)
    if not name.startswith(PRESET):
        return read_fleet(read_text(topology))
    found = preset(name.removeprefix(PRESET))
    if isinstance(found, UnknownPreset):
        raise click.ClickException(f"--topology: {found.reason}")
    return _as_fleet(found)


def _as_fleet(snapshot: ClusterSnapshot) -> Fleet:
    """Return the machines with the labels by which a job's pools choose them."""
    return Fleet(
        gpu_kinds=snapshot.gpu_kinds,
        places=tuple(
            Place(
                machine=machine,
                labels={PRODUCT_LABEL: machine.gpu_kind, REGION_LABEL: machine.region},
            )
            for machine in snapshot.machines
        ),
        links=snapshot.links,
    )
