"""What tells the objects of a deployment from those that stand, remembered between rounds.

A job is looked at dozens of times while its pods come up, and nearly always its objects are as
they should be: to see that, nothing need be rendered anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

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


def digests(deployment: Deployment) -> Digests:
    """Return the digests of a deployment, from memory where it was asked for before."""
    return _digests(_Rendered(deployment))


class _Rendered:
    """A deployment, equal to others of which all that rendering reads is the same.

    Of the job that is its identity alone, for its status changes all the time. What was asked and
    the plan count as the same only where they are one object: to compare a plan of thousands of
    GPUs takes as long as to render it.
    """

    __slots__ = ("_parts", "deployment")

    def __init__(self, deployment: Deployment) -> None:
        job, plan = deployment.job, deployment.plan
        self.deployment = deployment
        self._parts = (
            (job.namespace, job.name, job.uid),
            *(id(each) for each in (deployment.wish, plan.plan, deployment.settings)),
            plan.key,
            deployment.sets,
            deployment.running,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Rendered) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)


@lru_cache(maxsize=_MOST_KEPT)
def _digests(rendered: _Rendered) -> Digests:
    # The entry holds the deployment, so that no other object can come to have its parts' ids.
    deployment = rendered.deployment
    manifests = children(deployment)
    return Digests(
        objects={
            (each["kind"], each["metadata"]["name"]): each["metadata"]["annotations"][SPEC_HASH]
            for each in manifests
        },
        restarts={each.name: restart_hash(deployment, each) for each in deployment.sets},
    )
