"""Detection of deletions that a watch missed, by relisting.

A watch that falls too far behind lists everything again. Objects that were deleted meanwhile are in
no list, so kopf reports no deletion and its indexes keep them for ever. This module then lists the
names of the kind, and marks objects as gone that only the indexes have. A list that is older than
what a watch has shown of an object says nothing about it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hetrl_operator.cache.informer_cache import InformerCache
from hetrl_operator.cache.pending_writes import Place
from hetrl_operator.kube.client import NAMES_ONLY, KubernetesApi
from hetrl_operator.model.kueue import api as kueue_api
from hetrl_operator.model.labels import FIELD_MANAGER, MANAGED_BY

log = logging.getLogger(__name__)

SETTLE_SECONDS = 1.0
"""Delay before a check: a list comes in pages, and a watch may just be a moment late."""

EVERY_SECONDS = 600.0
"""Interval of checks of every kind, if none was suspected."""

_PAGE_OBJECTS = 500
_OURS = {"labelSelector": f"{MANAGED_BY}={FIELD_MANAGER}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    group: str
    plural: str
    query: Mapping[str, str] = field(default_factory=dict)
    is_namespaced: bool = True


_HETRL = "/apis/hetrl.dev/v1alpha1"
_KINDS = {
    "HetRLJob": _Kind(group=_HETRL, plural="hetrljobs"),
    "HetRLPlan": _Kind(group=_HETRL, plural="hetrlplans"),
    "Pod": _Kind(group="/api/v1", plural="pods", query=_OURS),
    "StatefulSet": _Kind(group="/apis/apps/v1", plural="statefulsets", query=_OURS),
    "Service": _Kind(group="/api/v1", plural="services", query=_OURS),
    "ConfigMap": _Kind(group="/api/v1", plural="configmaps", query=_OURS),
    "Workload": _Kind(group=kueue_api.PATH, plural="workloads", query=_OURS),
    "Node": _Kind(group="/api/v1", plural="nodes", is_namespaced=False),
    "HetRLTopology": _Kind(group=_HETRL, plural="hetrltopologies", is_namespaced=False),
}


@dataclass(slots=True, kw_only=True)
class MissedDeletes:
    """The check for missed deletions, one suspected kind at a time."""

    api: KubernetesApi
    cache: InformerCache
    namespaces: tuple[str, ...]
    """Served namespaces; empty: all."""

    on_deleted: Callable[[Place], None]
    """Called for every object whose deletion was missed."""

    _listed: set[Place] = field(default_factory=set)
    _seen: set[Place] | None = None
    """Objects that watches have shown since the running check began: they may be new."""

    _suspected: set[str] = field(default_factory=set)
    _something: asyncio.Event = field(default_factory=asyncio.Event)

    def record_event(self, place: Place, type_: str | None) -> None:
        """Record a watch event; a second listing of an object means that its watch restarted."""
        if type_ == "DELETED":
            self._listed.discard(place)
            return
        self.cache.gone.discard(place)
        if self._seen is not None:
            self._seen.add(place)
        if type_ is None and place in self._listed:
            self.suspect(place[0])
        self._listed.add(place)

    def suspect(self, kind: str) -> None:
        """Schedule a check of a kind."""
        self._suspected.add(kind)
        self._something.set()

    async def work(self) -> None:
        """Check suspected kinds until cancelled, and all kinds at an interval."""
        while True:
            try:
                async with asyncio.timeout(EVERY_SECONDS):
                    await self._something.wait()
            except TimeoutError:
                self._suspected.update(self._kinds())
            await asyncio.sleep(SETTLE_SECONDS)
            self._something.clear()
            suspected, self._suspected = self._suspected, set()
            for kind in sorted(suspected):
                await self._check(kind)

    def _kinds(self) -> set[str]:
        """Return the kinds to check: Workloads only if they are watched."""
        return set(_KINDS) - (set() if self.cache.workloads is not None else {"Workload"})

    async def _check(self, kind: str) -> None:
        # The cache is read before the list: otherwise new objects would look deleted.
        self._seen = set()
        known = self.cache.places(kind)
        found, version = await self._places(kind)
        seen, self._seen = self._seen, None
        if found is None:
            asyncio.get_running_loop().call_later(SETTLE_SECONDS, self.suspect, kind)
            return
        for place in known - found - seen:
            if self.cache.pending_writes.is_newer(place, version):
                continue
            log.warning("missed delete: kind=%s namespace=%s name=%s", *place)
            self.cache.gone.add(place)
            self._listed.discard(place)
            self.on_deleted(place)

    async def _places(self, kind: str) -> tuple[set[Place] | None, int]:
        """List the names of a kind; None if the API server failed.

        Returns:
            The places, and the oldest resource version of the lists.
        """
        spaces = self.namespaces if _KINDS[kind].is_namespaced and self.namespaces else ("",)
        found, versions = set[Place](), []
        for space in spaces:
            following = ""
            while True:
                page = await self._page(_KINDS[kind], space, following)
                if page is None:
                    return None, 0
                versions.append(int(page["metadata"].get("resourceVersion") or 0))
                found |= {_place(kind, each) for each in page.get("items") or ()}
                following = page["metadata"].get("continue") or ""
                if not following:
                    break
        return found, min(versions)

    async def _page(self, kind: _Kind, space: str, following: str) -> Mapping[str, Any] | None:
        scope = f"/namespaces/{space}" if space else ""
        query = {**kind.query, "limit": str(_PAGE_OBJECTS)}
        if following:
            query["continue"] = following
        path = f"{kind.group}{scope}/{kind.plural}"
        reply = await self.api.request("GET", path, query=query, accept=NAMES_ONLY)
        return reply.body if reply.is_success else None


def _place(kind: str, body: Mapping[str, Any]) -> Place:
    metadata = body["metadata"]
    return kind, metadata.get("namespace", ""), metadata["name"]
