"""What tells the objects of a deployment from those that stand, remembered between rounds.

A job is looked at dozens of times while its pods come up, and nearly always its objects are as
they should be: to see that, nothing need be rendered anew.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from hetrl_operator.labels import SPEC_HASH
from hetrl_operator.render.children import children
from hetrl_operator.render.deployment import Deployment
from hetrl_operator.render.restart import restart_hash

_MOST_KEPT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """Digests of what a deployment consists of; few bytes, where manifests are many."""

    objects: Mapping[tuple[str, str], str]
    """By kind and name, in the order in which they are to be written."""

    restarts: Mapping[str, str]
    """By pod set: what its pods are replaced for when it changes."""


_remembered: dict[Hashable, Digests] = {}
"""The least recently used is first."""


def digests(deployment: Deployment) -> Digests:
    """Return the digests of a deployment, from memory where it was asked for lately."""
    key = _key(deployment)
    found = _remembered.pop(key, None) or _rendered(deployment)
    _remembered[key] = found
    if len(_remembered) > _MOST_KEPT:
        del _remembered[next(iter(_remembered))]
    return found


def _key(deployment: Deployment) -> Hashable:
    """Return all that rendering reads.

    Of the job that is its identity alone, for its status changes all the time. Of the plan it is
    its uid: what a HetRLPlan says cannot change. To compare all that was asked takes as long as to
    render it, so that counts as the same only where it is one object.
    """
    job, plan = deployment.job, deployment.plan
    return (
        (job.namespace, job.name, job.uid),
        (plan.uid, plan.key),
        (_Same(deployment.wish), _Same(deployment.settings)),
        deployment.sets,
        deployment.running,
    )


class _Same:
    """An object that equals itself alone, and is kept, so that no other can take its place."""

    __slots__ = ("_kept",)

    def __init__(self, kept: object) -> None:
        self._kept = kept

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._kept is other._kept

    def __hash__(self) -> int:
        return id(self._kept)


def _rendered(deployment: Deployment) -> Digests:
    manifests = children(deployment)
    return Digests(
        objects={
            (each["kind"], each["metadata"]["name"]): each["metadata"]["annotations"][SPEC_HASH]
            for each in manifests
        },
        restarts={each.name: restart_hash(deployment, each) for each in deployment.sets},
    )
