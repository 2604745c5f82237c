"""Weights cross regions once: the worker that fetched them serves them to the others of its region.

    trainer ── patches, slow ──▶ relay ── whole, fast ──▶ the other workers of the region
       └─────────────── where the relay fails them ───────────────▶┘

Every worker whose weights cross regions can be the relay; who is, the coordinator says with each
announcement. What a relay serves is of the epoch that it was fetched in: it may hear of a new one
later than its readers.
"""

import logging
import socket
import time
from dataclasses import replace
from types import TracebackType
from typing import Self

from hetrl_core.launch import Address, Launch
from hetrl_runtime.transport.channel import is_loopback, open_channel
from hetrl_runtime.transport.fetching import (
    Assembly,
    Wanted,
    fetch_once,
    fetch_request,
    fetch_weights,
)
from hetrl_runtime.transport.weights import Snapshot, WeightServer
from hetrl_runtime.wire.hetrl_pb2_grpc import WeightsStub
from hetrl_runtime.wire.values import Announcement

log = logging.getLogger(__name__)

RELAY_SECONDS = 60.0
"""How long a relay that answers may have nothing: it waits for a slow link. One that does not
answer is given up at once."""


class WeightSource:
    """Where a worker gets weights from; a context manager, because it may be a relay."""

    def __init__(self, launch: Launch, *, process: str) -> None:
        self._launch = launch
        self._process = process
        self._server = _server(launch) if launch.weights_cross_regions else None
        self._base: Snapshot | None = None
        """What came last, of which the next are changes where they cross regions."""

    @property
    def relay(self) -> Address | None:
        """Where we serve others of our region; None where weights come over fast links."""
        return _address(self._launch, port=self._server.port) if self._server else None

    def __enter__(self) -> Self:
        if self._server:
            self._server.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server:
            self._server.__exit__(kind, error, traceback)

    async def fetch(self, news: Announcement, *, have_version: int) -> Snapshot:
        """Fetch the weights that were announced, or newer ones.

        Raises:
            Refused, Unreachable: as the errors' own words say, of the trainer.
        """
        snapshot = await self._from_relay(news, have_version=have_version)
        if snapshot is None:
            fetched = await fetch_weights(
                self._launch, process=self._process, have_version=have_version, base=self._base
            )
            snapshot = replace(fetched, crossed_regions=self._launch.weights_cross_regions)
        if self._server:
            # Also of what a relay gave: when it is gone, any of us may be asked.
            self._server.publish(snapshot, epoch=news.epoch)
            self._base = snapshot
        return snapshot

    async def _from_relay(self, news: Announcement, *, have_version: int) -> Snapshot | None:
        """Return a relay's weights; None where there is no relay, or it has none for us."""
        if not news.relay_address or self._server is None:
            return None
        found = await self._asked(news, have_version=have_version)
        if isinstance(found, Snapshot):
            return found
        log.warning("the trainer is asked, not %s: %s", news.relay_address, found)
        return None

    async def _asked(self, news: Announcement, *, have_version: int) -> Snapshot | str:
        """Return a relay's weights, or why there are none."""
        wanted = Wanted(have_version=have_version, least_version=news.version, epoch=news.epoch)
        host, _, port = news.relay_address.rpartition(":")
        give_up_at = time.monotonic() + RELAY_SECONDS
        assembly = Assembly()
        async with open_channel(Address(host=host, port=int(port)), self._launch.tls) as channel:
            stub = WeightsStub(channel)
            while time.monotonic() < give_up_at:
                request = fetch_request(self._launch, self._process, wanted, assembly)
                if outcome := await fetch_once(stub, request, assembly):
                    return outcome
        return f"nothing within {RELAY_SECONDS:g} s"


def _server(launch: Launch) -> WeightServer:
    # On loopback all processes share one address, and the contract's port is the trainer's.
    port = 0 if is_loopback(launch.coordinator.host) else launch.weights.port
    here = Address(host=launch.listen_host, port=port)
    return WeightServer(job=launch.job, address=here, tls=launch.tls)


def _address(launch: Launch, *, port: int) -> Address:
    """Return our own address: pods of a job have their names in one domain."""
    coordinator = launch.coordinator.host
    if is_loopback(coordinator):
        return Address(host=coordinator, port=port)
    return Address(host=f"{socket.gethostname()}.{coordinator.partition('.')[2]}", port=port)
