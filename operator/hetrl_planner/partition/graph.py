"""Devices and the links between each two of them, as square matrices.

A device is placed as a whole: one GPU, or the GPUs of one machine that run a tensor-parallel
group. The costs know the use of a link and its bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hetrl_core.fleet.snapshot import ClusterSnapshot, Machine
from hetrl_planner.cost.network import Channel, between_machines, inside_machine

Matrix = NDArray[np.float64]
Labels = NDArray[np.intp]
"""The part of each device, in the graph's order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceGraph:
    """A complete graph of devices. The matrices' diagonals mean nothing.

    Raises:
        ValueError: a matrix is not square or symmetric, a link carries nothing, or a latency
            or weight is negative.
    """

    names: tuple[str, ...]
    latency_seconds: Matrix
    """One way, shape (devices, devices), symmetric."""

    bytes_per_second: Matrix
    """In one direction, shape (devices, devices), symmetric."""

    weights: Matrix
    """A device's contribution to its part, such as FLOPS or bytes of memory; shape (devices,)."""

    def __post_init__(self) -> None:
        for name in ("latency_seconds", "bytes_per_second"):
            self._check_matrix(name, getattr(self, name))
        if self.weights.shape != (len(self),) or not np.all(self.weights > 0):
            raise ValueError(f"weights must be {len(self)} numbers > 0")
        for each in (self.latency_seconds, self.bytes_per_second, self.weights):
            each.setflags(write=False)

    def __len__(self) -> int:
        return len(self.names)

    def _check_matrix(self, name: str, values: Matrix) -> None:
        if values.shape != (len(self), len(self)) or not np.array_equal(values, values.T):
            raise ValueError(f"{name} must be a symmetric matrix of {len(self)} x {len(self)}")
        between = values[~np.eye(len(self), dtype=bool)]
        if np.all(between > 0 if name == "bytes_per_second" else between >= 0):
            return
        first, second = np.unravel_index(
            np.argmin(np.where(np.eye(len(self), dtype=bool), np.inf, values)), values.shape
        )
        limit = "> 0: a disconnected pair" if name == "bytes_per_second" else ">= 0: it"
        raise ValueError(
            f"{name} between {self.names[first]} and {self.names[second]} is "
            f"{values[first, second]}, and must be {limit} cannot be planned with"
        )

    @staticmethod
    def of_machines(
        snapshot: ClusterSnapshot, machines: Sequence[Machine], *, gpus_per_device: int = 1
    ) -> "DeviceGraph":
        """Return one device for each entry of ``machines``.

        A machine that is listed twice gives two devices, joined by its own interconnect.
        A link whose directions differ counts as the worse of both. The weight of a device is the
        peak FLOPS of its GPUs.
        """
        channels = [[_channel(snapshot, one, other) for other in machines] for one in machines]
        latency = np.array([[each.latency_seconds for each in row] for row in channels])
        bandwidth = np.array([[each.bytes_per_second for each in row] for row in channels])
        return DeviceGraph(
            names=_numbered(machines),
            latency_seconds=np.maximum(latency, latency.T),
            bytes_per_second=np.minimum(bandwidth, bandwidth.T),
            weights=np.array(
                [gpus_per_device * snapshot.kind(each.gpu_kind).bf16_flops for each in machines]
            ),
        )

    def transfer_seconds(self, size_bytes: float) -> Matrix:
        """Return the time of one message between each two devices; 0 on the diagonal."""
        others = ~np.eye(len(self), dtype=bool)
        seconds = np.zeros(others.shape)
        seconds[others] = self.latency_seconds[others] + size_bytes / self.bytes_per_second[others]
        return seconds

    @cached_property
    def class_of(self) -> Labels:
        """Return the class of each device, numbered from 0 by first appearance.

        Devices are of one class when exchanging them changes nothing: equal weights, and
        equal links to each third device. Exchanging them need not be tried, and parts that
        hold equally many of each class cost the same.
        """
        classes: list[int] = []
        firsts: dict[bytes, list[tuple[int, int]]] = {}
        for device, signature in enumerate(self._signatures()):
            same = firsts.setdefault(signature, [])
            found = next((n for first, n in same if self._alike(first, device)), None)
            if found is None:
                found = max(classes, default=-1) + 1
                same.append((device, found))
            classes.append(found)
        return np.array(classes, dtype=np.intp)

    def _signatures(self) -> list[bytes]:
        """Return a key that equal devices share, and that compares quickly."""
        others = ~np.eye(len(self), dtype=bool)
        rows = [
            np.sort(values[others].reshape(len(self), len(self) - 1), axis=1)
            for values in (self.latency_seconds, self.bytes_per_second)
        ]
        columns = np.hstack([self.weights[:, None], *rows])
        return [row.tobytes() for row in columns]

    def _alike(self, one: int, other: int) -> bool:
        if self.weights[one] != self.weights[other]:
            return False
        third = np.ones(len(self), dtype=bool)
        third[[one, other]] = False
        return all(
            np.array_equal(values[one, third], values[other, third])
            for values in (self.latency_seconds, self.bytes_per_second)
        )


def _channel(snapshot: ClusterSnapshot, one: Machine, other: Machine) -> Channel:
    if one.name == other.name:
        return inside_machine(snapshot.kind(one.gpu_kind))
    return between_machines(snapshot, one.region, other.region)


def _numbered(machines: Sequence[Machine]) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    names = []
    for machine in machines:
        seen[machine.name] = number = seen.get(machine.name, -1) + 1
        names.append(f"{machine.name}/{number}")
    return tuple(names)
