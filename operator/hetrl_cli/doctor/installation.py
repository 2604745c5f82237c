"""Findings on HetRL itself: its kinds, its operator, what the asker may do, and clocks."""

from collections.abc import Iterator
from datetime import datetime
from functools import cache

from hetrl_api.crds.schema import structural_schema
from hetrl_api.job.job import HetRLJob
from hetrl_cli.cluster.connection import Refused
from hetrl_cli.doctor.facts import Facts, dotted
from hetrl_cli.doctor.finding import Finding
from hetrl_cli.doctor.pods import image_trouble, name_of

MOST_SKEW_SECONDS = 5.0
"""Between this machine and the API server; certificates and leases tolerate more."""

MOST_NODE_SKEW_SECONDS = 30.0
"""By which a node's lease may lie in the future."""

_SHOWN = 5


def findings(facts: Facts) -> Iterator[Finding]:
    """Yield what is wrong with the installation."""
    yield from _kinds(facts)
    yield from _rights(facts)
    yield from _operator(facts)
    yield from _clocks(facts)


@cache
def own_fields() -> frozenset[str]:
    """Return the fields of a job's spec that this release has."""
    return frozenset(dotted(structural_schema(HetRLJob)["properties"]["spec"], "spec"))


def _kinds(facts: Facts) -> Iterator[Finding]:
    if facts.fields is None:
        yield Finding(
            about="kinds",
            said="the cluster knows no HetRLJob: its CustomResourceDefinitions are not installed",
            remedy="install the chart: helm install hetrl charts/hetrl, with crds.install left on",
        )
        return
    if isinstance(facts.fields, Refused):
        return
    # Of a field that is missing, what it holds is missing too: only the field is named.
    every = own_fields() - facts.fields
    missing = {each for each in every if each.rpartition(".")[0] not in every}
    if missing:
        shown = ", ".join(sorted(missing)[:_SHOWN])
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        yield Finding(
            about="kinds",
            said=f"the cluster's HetRLJob is of another release: it has no {shown}{more}",
            remedy="helm upgrade hetrl charts/hetrl, or kubectl apply --server-side -f crds/",
        )


def _rights(facts: Facts) -> Iterator[Finding]:
    if facts.missing_rights:
        yield Finding(
            about="rights",
            said=f"you may not {', '.join(facts.missing_rights)} in this namespace",
            remedy="ask for the role hetrl-edit, or edit, which includes it: kubectl create "
            "rolebinding NAME --clusterrole=edit --user=YOU",
        )


_CONTAINER = "operator"
"""In the operator's pods, as the chart names it."""


def _operator(facts: Facts) -> Iterator[Finding]:
    if facts.operators is None:
        return
    if not facts.operators:
        yield Finding(
            about="operator",
            said="no pod of the operator is there: jobs stay as they are",
            remedy="helm status hetrl says what was installed; the Deployment's events say why "
            "it makes no pods",
        )
    for pod in facts.operators:
        if trouble := image_trouble(pod, _CONTAINER):
            yield Finding(
                about="operator",
                said=f"{name_of(pod)} has no image: {trouble}",
                remedy="set image.repository and image.tag of the chart to an image that nodes "
                "can pull, and imagePullSecrets where the registry asks who they are",
            )


def _clocks(facts: Facts) -> Iterator[Finding]:
    skew = (facts.server_time - facts.asked_at).total_seconds()
    if abs(skew) > MOST_SKEW_SECONDS:
        yield Finding(
            about="clocks",
            said=f"the API server's clock is {abs(skew):.0f} s "
            f"{'ahead of' if skew > 0 else 'behind'} this machine's",
            remedy="run an NTP daemon on both: certificates begin and end by these clocks",
        )
    for lease in facts.leases or ():
        renewed = lease["spec"].get("renewTime")
        if not renewed:
            continue
        ahead = (datetime.fromisoformat(renewed) - facts.server_time).total_seconds()
        if ahead > MOST_NODE_SKEW_SECONDS:
            yield Finding(
                about="clocks",
                said=f"the clock of node {lease['metadata']['name']} is {ahead:.0f} s ahead of the "
                "API server's",
                remedy="run an NTP daemon on the node: a job's certificates would not be valid "
                "there yet or any more",
            )
