"""Weights cross regions once: the worker that fetched them serves them to the others of its region.

    trainer ── patches, slow ──▶ relay ── whole, fast ──▶ the other workers of the region
       └─────────────── where the relay fails them ───────────────▶┘

Every worker whose weights cross regions can be the relay; each announcement of the coordinator
names it. A relay serves weights of the epoch that it fetched them in: it may learn of a new epoch
later than its readers.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Protocol

from hetrl_core.launch import Address, Launch
from hetrl_core.task import Role
from hetrl_runtime.compute.buffers import Buffers
from hetrl_runtime.transport.channel import open_channel
from hetrl_runtime.transport.weights.fetching import (
    Assembly,
    Wanted,
    fetch_once,
    fetch_request,
    fetch_weights,
)
from hetrl_runtime.transport.weights.own_address import listening_address, own_address
from hetrl_runtime.transport.weights.weights import Snapshot, WeightServer
from hetrl_runtime.wire.hetrl_pb2_grpc import WeightsStub
from hetrl_runtime.wire.values import Announcement

log = logging.getLogger(__name__)

RELAY_SECONDS = 10.0
"""How long a relay may have nothing on its way: it may hear of a version later than its readers."""


class Broadcast(Protocol):
    """The trainer's region, where weights come to all of its workers at once."""

    async def receive(self, *, have_version: int) -> Snapshot | str:
        """Return the newest weights, or why they did not come this way."""
        ...


@contextmanager
def weight_source(
    launch: Launch, *, process: str, broadcast: Broadcast | None = None
) -> Iterator["WeightSource"]:
    """Yield where a worker gets weights; where they cross regions it serves others meanwhile."""
    with _server(launch) if launch.weights_cross_regions else nullcontext() as server:
        yield WeightSource(launch, process=process, server=server, broadcast=broadcast)


class WeightSource:
    """The weight source of a worker: broadcast, its region's relay or the trainer."""

    def __init__(
        self,
        launch: Launch,
        *,
        process: str,
        server: WeightServer | None,
        broadcast: Broadcast | None = None,
    ) -> None:
        self._launch = launch
        self._process = process
        self._server = server
        self._broadcast = broadcast
        self._buffers = Buffers()
        self._base: Snapshot | None = None
        """The last weights: the base of the next patch across regions."""

    @property
    def relay(self) -> Address | None:
        """Where we serve others of our region; None where weights come over fast links."""
        return own_address(self._launch, port=self._server.port) if self._server else None

    async def fetch(self, news: Announcement, *, have_version: int) -> Snapshot:
        """Fetch the weights that were announced, or newer ones.

        Raises:
            Refused, Unreachable: as the errors' own words say, of the trainer.
        """
        if self._server is None:
            return await self._from_near(have_version)
        if news.relay_address:
            given = await self._from_relay(news, have_version=have_version)
            if isinstance(given, Snapshot):
                # When the relay is gone, any of us may be asked.
                return self._passed_on(given, news.epoch, self._server)
            log.warning("the trainer is asked, not %s: %s", news.relay_address, given)
        with self._server.expecting():
            fetched = await self._from_trainer(have_version)
            crossed = replace(fetched, crossed_regions=True)
            return self._passed_on(crossed, news.epoch, self._server)

    async def _from_near(self, have_version: int) -> Snapshot:
        """Fetch within the trainer's region: by broadcast where there is one."""
        if self._broadcast is None:
            return await self._from_trainer(have_version)
        given = await self._broadcast.receive(have_version=have_version)
        if isinstance(given, Snapshot):
            return given
        log.warning("the trainer is asked, no broadcast came: %s", given)
        return await self._from_trainer(have_version)

    async def _from_trainer(self, have_version: int) -> Snapshot:
        return await fetch_weights(
            self._launch,
            process=self._process,
            have_version=have_version,
            base=self._base,
            buffers=self._buffers,
        )

    def _passed_on(self, snapshot: Snapshot, epoch: int, server: WeightServer) -> Snapshot:
        server.publish(snapshot, epoch=epoch)
        self._base = snapshot
        return snapshot

    async def _from_relay(self, news: Announcement, *, have_version: int) -> Snapshot | str:
        """Return a relay's weights, or why there are none."""
        wanted = Wanted(
            have_version=have_version,
            least_version=news.version,
            epoch=news.epoch,
            wait_seconds=RELAY_SECONDS,
        )
        host, _, port = news.relay_address.rpartition(":")
        assembly = Assembly(self._buffers)
        place = Address(host=host, port=int(port))
        async with open_channel(place, self._launch.tls, program=Role.ROLLOUT) as channel:
            request = fetch_request(self._launch, self._process, wanted, assembly)
            found = await fetch_once(WeightsStub(channel), request, assembly)
        return found or f"nothing was on its way there for {RELAY_SECONDS:g} s"


def _server(launch: Launch) -> WeightServer:
    here = listening_address(launch, port=launch.weights.port)
    return WeightServer(job=launch.job, address=here, tls=launch.tls)
