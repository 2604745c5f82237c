"""A fleet with each of its figures a quarter up or down, to see what a result hangs on.

Efficiencies, wires and prices by GPU kind; links inside and across regions.
"""

from dataclasses import replace

from hetrl_core.fleet.snapshot import ClusterSnapshot

CHANGE = 0.25


def changed(fleet: ClusterSnapshot) -> dict[str, ClusterSnapshot]:
    """Return the fleet under each change, by what is changed."""
    found = {}
    for sign, factor in (("+", 1 + CHANGE), ("-", 1 - CHANGE)):
        for kind in fleet.gpu_kinds:
            for field in (
                "compute_efficiency",
                "memory_efficiency",
                "intra_node_bytes_per_second",
                "dollars_per_hour",
            ):
                value = getattr(kind, field) * factor
                kinds = tuple(
                    replace(each, **{field: value}) if each is kind else each
                    for each in fleet.gpu_kinds
                )
                found[f"{kind.name} {field} {sign}25 %"] = replace(fleet, gpu_kinds=kinds)
        for name, is_inside in (("in regions", True), ("across regions", False)):
            links = tuple(
                replace(each, bytes_per_second=each.bytes_per_second * factor)
                if (each.source == each.target) is is_inside
                else each
                for each in fleet.links
            )
            found[f"bandwidth {name} {sign}25 %"] = replace(fleet, links=links)
    return found
