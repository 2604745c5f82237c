"""Trajectories on their way to the coordinator: each is sent until it is acknowledged.

One stream at a time carries them in order, and receipts come back in the same order. When
a stream breaks, everything without a receipt goes over the next one.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

import grpc.aio

from hetrl_runtime.transport.clients.coordinator_link import CoordinatorLink
from hetrl_runtime.transport.errors import TransportError
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.trajectory import FailedTrajectory, SampledTrajectory
from hetrl_runtime.wire.values import Outcome

log = logging.getLogger(__name__)


class Deliveries:
    """Deliveries of a worker that the coordinator has not acknowledged yet."""

    def __init__(self, link: CoordinatorLink) -> None:
        self._link = link
        self._unacknowledged: deque[_Delivery] = deque()
        self._outbox: asyncio.Queue[_Delivery | None] = asyncio.Queue()
        self._lost: TransportError | None = None

    async def send(self, trajectory: SampledTrajectory | FailedTrajectory) -> Outcome:
        """Return what became of a trajectory, once the coordinator has said so.

        Raises:
            TransportError: the coordinator is gone for good, or the run is over.
        """
        if self._lost:
            raise self._lost
        delivery = _Delivery(
            message=codec.encode_trajectory(trajectory),
            outcome=asyncio.get_running_loop().create_future(),
        )
        self._unacknowledged.append(delivery)
        self._outbox.put_nowait(delivery)
        return await delivery.outcome

    async def keep_sending(self) -> None:
        """Carry deliveries over stream after stream, until the coordinator is gone for good."""
        try:
            while True:
                await self._link.wait_to_reopen(await self._send_over_one_stream())
        except TransportError as error:
            self._lost = error
            for delivery in self._unacknowledged:
                if not delivery.outcome.done():
                    delivery.outcome.set_exception(error)

    async def _send_over_one_stream(self) -> grpc.aio.AioRpcError | None:
        # Everything unacknowledged goes first, and once: the old queue still names some of it.
        outbox: asyncio.Queue[_Delivery | None] = asyncio.Queue()
        self._outbox = outbox
        for delivery in self._unacknowledged:
            outbox.put_nowait(delivery)
        try:
            async for message in self._link.stub.Deliver(_messages(outbox)):
                for receipt in message.receipts:
                    self._acknowledge(receipt)
        except grpc.aio.AioRpcError as error:
            log.info("delivery stream lost, sending again: %s", error.details())
            return error
        finally:
            # Else gRPC would wait for the next message of a broken stream forever.
            outbox.put_nowait(None)
        return None

    def _acknowledge(self, receipt: pb.DeliveryReceipt) -> None:
        identity, outcome, detail = codec.decode_receipt(receipt)
        if outcome in {Outcome.MALFORMED, Outcome.STALE}:
            log.warning("trajectory refused: id=%s outcome=%s %s", identity, outcome, detail)
        # By order and not by id: work of two epochs may share an id.
        delivery = self._unacknowledged.popleft()
        if not delivery.outcome.done():
            delivery.outcome.set_result(outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Delivery:
    message: bytes
    outcome: asyncio.Future[Outcome]


async def _messages(outbox: "asyncio.Queue[_Delivery | None]") -> AsyncIterator[pb.Trajectories]:
    """Yield what is in the outbox as it comes, until None is."""
    delivery = await outbox.get()
    while delivery is not None:
        ready = [delivery.message]
        while not outbox.empty() and (delivery := outbox.get_nowait()) is not None:
            ready.append(delivery.message)
        for part in codec.in_parts(ready):
            yield part
        if delivery is not None:
            delivery = await outbox.get()
