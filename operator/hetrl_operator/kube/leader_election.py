"""Leader election with a Lease: the replica that holds it and renews it in time acts.

Durations are measured with a monotonic clock, from when this process saw or sent something.
Timestamps of other replicas are never compared with ours. A holder stops acting before another
replica may start. docs/decisions/0070 says why this is not a library.
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
    """The durations of a lease.

    They are a little shorter than the 15, 10 and 2 seconds of Kubernetes' own components: a killed
    leader is replaced within 20 s, and the new one must list all objects in that time.
    """

    lease_seconds: float = 12.0
    """Time without a renewal after which another replica may acquire it."""

    renew_within_seconds: float = 8.0
    """Time without a renewal after which its holder stops acting. It is below ``lease_seconds``:
    the difference covers a request in flight."""

    retry_seconds: float = 2.0
    """Time between two attempts, with random jitter of up to a fifth so that replicas differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The identity of this replica in the election."""

    namespace: str
    lease: str
    identity: str
    """A unique identity: a restarted container has another one."""

    address: str = ""
    """``host:port`` of this replica's progress endpoint, for the other replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ObservedLease:
    """The last observed version of the lease, and when it was first observed."""

    version: str
    body: Mapping[str, Any]
    since: float

    @property
    def spec(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.body.get("spec") or {}
        return found


@dataclass(slots=True, kw_only=True)
class LeaderElection:
    """One replica's part in leader election."""

    api: KubernetesApi
    candidate: Candidate
    config: LeaseConfig = field(default_factory=LeaseConfig)
    clock: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.Random)
    _observed: _ObservedLease | None = None
    _renewed_at: float | None = None
    """When the last successful renewal was *sent*; None while this replica does not lead."""

    def leads(self) -> bool:
        """Tell whether this replica leads now."""
        at = self._renewed_at
        return at is not None and self.clock() - at < self.config.renew_within_seconds

    def has_seen_lease(self) -> bool:
        """Tell whether this replica has read the lease, or holds it."""
        return self._observed is not None

    def leader_address(self) -> str:
        """Return the address of the leader's progress endpoint; empty while no leader is known."""
        if self._observed is None:
            return ""
        annotations = self._observed.body["metadata"].get("annotations") or {}
        return str(annotations.get(LEADER_ADDRESS, ""))

    async def acquire(self) -> None:
        """Wait until this replica leads."""
        while not await self._attempt():
            await asyncio.sleep(min(self._retry_delay(), self._expires_in()))
        log.info(
            "became leader: lease=%s identity=%s", self.candidate.lease, self.candidate.identity
        )

    async def renew(self) -> None:
        """Renew the lease; return when that has failed for too long, and the caller must stop."""
        while self.leads():
            await asyncio.sleep(self._retry_delay())
            await self._attempt()
        log.error("lost lease: lease=%s identity=%s", self.candidate.lease, self.candidate.identity)

    async def release(self) -> None:
        """Release the lease for another replica; call it when this one writes nothing any more."""
        if not self.leads() or self._observed is None:
            return
        self._renewed_at = None
        spec = {**self._observed.spec, "holderIdentity": "", "leaseDurationSeconds": 1}
        reply = await self._replace(self._observed.body, spec)
        log.info("released lease: lease=%s status=%d", self.candidate.lease, reply.status)

    async def _attempt(self) -> bool:
        """Acquire or renew the lease if possible; return whether this replica holds it."""
        sent_at = self.clock()
        reply = await self._write()
        if reply is None:
            return False
        if not reply.is_success:
            if reply.status == HTTPStatus.CONFLICT:
                # Another replica was first, or the response to our last renewal was lost: read it.
                self._observed = None
            log.warning("lease not written: status=%d why=%s", reply.status, reply.message)
            return False
        self._renewed_at = sent_at
        self._see(reply.body)
        return True

    async def _write(self) -> Reply | None:
        """Write the lease if it is free or ours; None if it is not, or cannot be read."""
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
        """Return the seconds until the lease of another replica expires, at least a minimum."""
        if self._observed is None:
            return self.config.retry_seconds
        # Never zero: two replicas that wait for the same moment would request without end.
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
        """Replace the observed lease; the resource version prevents lost updates."""
        metadata = body["metadata"]
        annotations = {**(metadata.get("annotations") or {}), **self._annotations}
        written = {**body, "metadata": {**metadata, "annotations": annotations}, "spec": spec}
        return await self._request("PUT", self._path, written)

    async def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Reply:
        # A request that hangs must leave time for another one.
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

    def _retry_delay(self) -> float:
        return self.config.retry_seconds * (1 + 0.2 * self.rng.random())
