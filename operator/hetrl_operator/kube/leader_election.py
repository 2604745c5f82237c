"""Which replica acts: the one that holds a Lease, and renews it in time.

Durations are taken from a monotonic clock, from when this process saw or sent something; what
others wrote as their time is never compared with ours. A holder stops acting before anybody else
may begin. Why this is ours and not a library's: docs/decisions/0070.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from hetrl_operator.kube.client import KubernetesApi, Reply
from hetrl_operator.model.labels import FIELD_MANAGER, LEADER_ADDRESS

log = logging.getLogger(__name__)

_SHORTEST_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseConfig:
    """How long a lease lasts.

    A little shorter than 15, 10 and 2 seconds, which Kubernetes' own components take: a killed
    leader is followed within 20 s, and a new one must still list everything.
    """

    lease_seconds: float = 12.0
    """After so long without a renewal another replica may take it."""

    renew_within_seconds: float = 8.0
    """After so long without a renewal its holder stops acting. Below ``lease_seconds``: the
    difference is what a request in flight may take."""

    retry_seconds: float = 2.0
    """Between two attempts; up to a fifth longer by chance, so that replicas do not collide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Who we are in the election."""

    namespace: str
    lease: str
    identity: str
    """Never used twice: a restarted container is somebody else."""

    address: str = ""
    """``host:port`` where the others reach our progress endpoint while we lead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ObservedLease:
    """The lease as it was seen last, and since when it has been like that."""

    version: str
    body: Mapping[str, Any]
    since: float

    @property
    def spec(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.body.get("spec") or {}
        return found


@dataclass(slots=True, kw_only=True)
class LeaderElection:
    """One candidate's part in the election of a leader."""

    api: KubernetesApi
    candidate: Candidate
    config: LeaseConfig = field(default_factory=LeaseConfig)
    clock: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.Random)
    _observed: _ObservedLease | None = None
    _renewed_at: float | None = None
    """When the renewal was *sent* that succeeded last; None while we do not lead."""

    def leads(self) -> bool:
        """Tell whether we may act now."""
        at = self._renewed_at
        return at is not None and self.clock() - at < self.config.renew_within_seconds

    def has_seen_lease(self) -> bool:
        """Tell whether the election works for us: we have read the lease, or hold it."""
        return self._observed is not None

    def leader_address(self) -> str:
        """Return where the leader's progress endpoint is; empty while nobody is known to lead."""
        if self._observed is None:
            return ""
        annotations = self._observed.body["metadata"].get("annotations") or {}
        return str(annotations.get(LEADER_ADDRESS, ""))

    async def acquire(self) -> None:
        """Wait until we lead."""
        while not await self._attempt():
            await asyncio.sleep(min(self._pause(), self._expires_in()))
        log.info("leading: lease=%s identity=%s", self.candidate.lease, self.candidate.identity)

    async def renew(self) -> None:
        """Renew until that has failed for too long; whoever waits for this must then stop."""
        while self.leads():
            await asyncio.sleep(self._pause())
            await self._attempt()
        log.error("lost: lease=%s identity=%s", self.candidate.lease, self.candidate.identity)

    async def release(self) -> None:
        """Let another replica act at once; to be called when nothing of ours writes any more."""
        if not self.leads() or self._observed is None:
            return
        self._renewed_at = None
        spec = {**self._observed.spec, "holderIdentity": "", "leaseDurationSeconds": 1}
        reply = await self._replace(self._observed.body, spec)
        log.info("resigned: lease=%s status=%d", self.candidate.lease, reply.status)

    async def _attempt(self) -> bool:
        """Take or renew the lease if that is allowed; tell whether we hold it afterwards."""
        sent_at = self.clock()
        reply = await self._write()
        if reply is None:
            return False
        if not reply.is_success:
            if reply.status == HTTPStatus.CONFLICT:
                # Somebody else was first, or our last renewal came through unheard: look again.
                self._observed = None
            log.warning("lease not written: status=%d why=%s", reply.status, reply.message)
            return False
        self._renewed_at = sent_at
        self._see(reply.body)
        return True

    async def _write(self) -> Reply | None:
        """Write the lease if it is free or ours; None: it is not, or cannot be read."""
        if not self.leads() or self._observed is None:
            found = await self._request("GET", self._path)
            if found.status == HTTPStatus.NOT_FOUND:
                return await self._create()
            if not found.is_success:
                log.warning("lease not read: status=%d why=%s", found.status, found.message)
                return None
            self._see(found.body)
        sight = self._observed
        assert sight, "it was just seen, or we hold it"
        holder = sight.spec.get("holderIdentity") or ""
        if holder not in {"", self.candidate.identity} and self._left(sight) > 0:
            self._renewed_at = None
            return None
        return await self._replace(sight.body, self._spec(sight, is_new=holder != self._us))

    def _see(self, body: Mapping[str, Any]) -> None:
        version = body["metadata"]["resourceVersion"]
        if self._observed is None or self._observed.version != version:
            self._observed = _ObservedLease(version=version, body=body, since=self.clock())

    def _expires_in(self) -> float:
        """Return when to look again at a lease that somebody else holds, at the latest."""
        if self._observed is None:
            return self.config.retry_seconds
        # Never at once: two who wait for the same moment would ask without end.
        return max(_SHORTEST_SECONDS * (1 + self.rng.random()), self._left(self._observed))

    def _left(self, sight: _ObservedLease) -> float:
        lasts = float(sight.spec.get("leaseDurationSeconds") or self.config.lease_seconds)
        return sight.since + lasts - self.clock()

    def _spec(self, sight: _ObservedLease | None, *, is_new: bool) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        before = sight.spec if sight else {}
        transitions = int(before.get("leaseTransitions") or 0)
        return {
            "holderIdentity": self._us,
            # Whole seconds: the API knows no others.
            "leaseDurationSeconds": max(1, round(self.config.lease_seconds)),
            "acquireTime": now if is_new else before.get("acquireTime", now),
            "renewTime": now,
            "leaseTransitions": transitions + (is_new and sight is not None),
        }

    async def _create(self) -> Reply:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.candidate.lease, "annotations": self._annotations},
            "spec": self._spec(None, is_new=True),
        }
        collection = self._path.rpartition("/")[0]
        return await self._request("POST", collection, body)

    async def _replace(self, body: Mapping[str, Any], spec: Mapping[str, Any]) -> Reply:
        """Write over what we have seen; the resource version makes that safe."""
        metadata = body["metadata"]
        annotations = {**(metadata.get("annotations") or {}), **self._annotations}
        written = {**body, "metadata": {**metadata, "annotations": annotations}, "spec": spec}
        return await self._request("PUT", self._path, written)

    async def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Reply:
        # One that hangs must leave time for another.
        return await self.api.request(
            method,
            path,
            query={} if body is None else {"fieldManager": FIELD_MANAGER},
            body=body,
            timeout_seconds=self.config.renew_within_seconds / 2,
        )

    @property
    def _us(self) -> str:
        return self.candidate.identity

    @property
    def _annotations(self) -> dict[str, str]:
        return {LEADER_ADDRESS: self.candidate.address}

    @property
    def _path(self) -> str:
        return (
            f"/apis/coordination.k8s.io/v1/namespaces/{self.candidate.namespace}"
            f"/leases/{self.candidate.lease}"
        )

    def _pause(self) -> float:
        return self.config.retry_seconds * (1 + 0.2 * self.rng.random())
