"""Digests of a deployment's objects, cached between reconciles.

A job is reconciled dozens of times while its pods start, and nearly always its objects are as
desired. The cached digests show that without rendering.
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
"""Cached deployments per spec: plans and roles of a job change, and older ones are not needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """Digests of a deployment's objects; they are much smaller than the manifests."""

    objects: Mapping[tuple[str, str], str]
    """Manifest digests by kind and name, in the order of writes."""

    restarts: Mapping[str, str]
    """Restart digests by pod set; a changed digest replaces its pods."""


_remembered: dict[int, dict[Hashable, Digests]] = {}
"""Digests by the id of a parsed spec while it lives; the least recently used is first."""


def digests(deployment: Deployment) -> Digests:
    """Return the digests of a deployment, from the cache if possible."""
    known, key = _of(deployment.parsed), _key(deployment)
    found = known.pop(key, None) or _rendered(deployment)
    known[key] = found
    if len(known) > _MOST_PER_SPEC:
        del known[next(iter(known))]
    return found


def _of(parsed: ParsedSpec) -> dict[Hashable, Digests]:
    """Return the cached digests of a parsed spec.

    The key is the object's identity: a comparison of specs would take as long as rendering.
    """
    found = _remembered.get(id(parsed))
    if found is None:
        found = _remembered[id(parsed)] = {}
        # An id may be used again, so the entry must be removed with its object.
        finalize(parsed, _remembered.pop, id(parsed), None).atexit = False
    return found


def _key(deployment: Deployment) -> Hashable:
    """Return a key of all other inputs of rendering.

    The job counts by its identity, since its status changes all the time. The plan counts by its
    uid, since a HetRLPlan's spec cannot change. Settings are one object for the whole process.
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
    """A key that equals only the same object, and keeps it alive so that its id stays unique."""

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
