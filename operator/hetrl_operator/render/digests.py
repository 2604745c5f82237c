"""What tells the objects of a deployment from those that stand, remembered between rounds.

A job is looked at dozens of times while its pods come up, and nearly always its objects are as
they should be: to see that, nothing need be rendered anew.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from weakref import finalize

from hetrl_operator.model.labels import SPEC_HASH
from hetrl_operator.model.observed import ParsedSpec
from hetrl_operator.render.children import children
from hetrl_operator.render.deployment import Deployment
from hetrl_operator.render.restart import restart_hash

_MOST_PER_SPEC = 4
"""Plans and roles of a job change; what it was before its last replans is not asked for again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """Digests of what a deployment consists of; few bytes, where manifests are many."""

    objects: Mapping[tuple[str, str], str]
    """By kind and name, in the order in which they are to be written."""

    restarts: Mapping[str, str]
    """By pod set: what its pods are replaced for when it changes."""


_remembered: dict[int, dict[Hashable, Digests]] = {}
"""By the id of the wish, for as long as it lives; the least recently used is first."""


def digests(deployment: Deployment) -> Digests:
    """Return the digests of a deployment, from memory where it was asked for lately."""
    known, key = _of(deployment.parsed), _key(deployment)
    found = known.pop(key, None) or _rendered(deployment)
    known[key] = found
    if len(known) > _MOST_PER_SPEC:
        del known[next(iter(known))]
    return found


def _of(parsed: ParsedSpec) -> dict[Hashable, Digests]:
    """Return what is remembered of a wish.

    It is told by its identity: to compare all that was asked takes as long as to render it.
    """
    found = _remembered.get(id(parsed))
    if found is None:
        found = _remembered[id(parsed)] = {}
        # An id may be given again, so this must be gone before.
        finalize(parsed, _remembered.pop, id(parsed), None).atexit = False
    return found


def _key(deployment: Deployment) -> Hashable:
    """Return all else that rendering reads.

    Of the job that is its identity alone, for its status changes all the time. Of the plan it is
    its uid: what a HetRLPlan says cannot change. Settings are one object as long as we run.
    """
    job, plan = deployment.job, deployment.plan
    return (
        (job.namespace, job.name, job.uid),
        (plan.uid, plan.key),
        _Same(deployment.settings),
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
