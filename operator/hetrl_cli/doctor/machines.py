"""Findings on nodes: those that cannot be used, and links that are not described."""

from collections.abc import Iterator

from hetrl_api.fleet.fleet import GPU_RESOURCE, Fleet
from hetrl_api.fleet.place import PRODUCT_LABEL
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_cli.cluster.fleet import fleet_of_cluster
from hetrl_cli.doctor.facts import Facts
from hetrl_cli.doctor.finding import Finding, Weight
from hetrl_core.job.spec import ResourcesSpec

_REMEDIES = (
    (
        f"has no {GPU_RESOURCE}",
        "install NVIDIA's device plugin or GPU operator on the node; its pods say what they miss",
    ),
    ("cordoned", "kubectl uncordon NODE, once it is well"),
    ("not ready", "kubectl describe node NODE says what its kubelet reports"),
    (
        "has compute capability",
        "let jobs use newer GPUs; spec.gpuKinds.computeCapability of a HetRLTopology corrects a "
        "wrong figure",
    ),
    (
        "",
        f"label the node {PRODUCT_LABEL} (GPU feature discovery does), or describe the product "
        "in spec.gpuKinds of a HetRLTopology",
    ),
)
"""By a part of the reason; the first that is found."""


def findings(facts: Facts) -> Iterator[Finding]:
    """Yield what is wrong with the nodes."""
    if facts.nodes is None:
        return
    try:
        fleet = fleet_of_cluster(facts.nodes, topologies=facts.topologies)
    except InvalidObjectError as error:
        yield Finding(
            about="topology", said="; ".join(error.messages), remedy="correct the HetRLTopology"
        )
        return
    for absence in fleet.absences:
        remedy = next(remedy for sign, remedy in _REMEDIES if sign in absence.reason)
        yield Finding(
            about="nodes",
            said=f"node {absence.node} is left out: {absence.reason}",
            remedy=remedy.replace("NODE", absence.node),
            weight=Weight.NOTE if fleet.places else Weight.PROBLEM,
        )
    if not fleet.places and not fleet.absences:
        yield Finding(
            about="nodes",
            said=f"none of {len(facts.nodes)} nodes has {GPU_RESOURCE} or a label {PRODUCT_LABEL}",
            remedy="add GPU nodes with NVIDIA's GPU operator, or HetRL plans nothing here",
        )
    for warning in fleet.warnings(ResourcesSpec()):
        yield Finding(
            about="nodes",
            said=warning,
            remedy="name other GPUs in spec.resources.pools of jobs, if there are any",
            weight=Weight.NOTE,
        )
    yield from _links(fleet)
    yield from _disks(facts)


def _links(fleet: Fleet) -> Iterator[Finding]:
    for source, target in fleet.snapshot(ResourcesSpec()).unlinked_regions:
        yield Finding(
            about="links",
            said=f"no link is given between {source} and {target}: 1 Gbit/s and 60 ms are assumed",
            remedy="describe it in spec.links of a HetRLTopology",
            weight=Weight.NOTE,
        )


def _disks(facts: Facts) -> Iterator[Finding]:
    for node in facts.nodes or ():
        for condition in node.get("status", {}).get("conditions") or ():
            if condition["type"] == "DiskPressure" and condition["status"] == "True":
                yield Finding(
                    about="disks",
                    said=f"the disk of node {node['metadata']['name']} is full: pods are evicted",
                    remedy="delete images and logs there, or give it a larger disk",
                )
