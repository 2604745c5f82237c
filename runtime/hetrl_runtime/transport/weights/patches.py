"""The patches between a trainer's last versions, for readers over slow links.

Nothing is made before the first such reader asks; from then on each version costs one patch, made
during training, and the version before is released. ``patch`` defines the format.
"""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice

from hetrl_runtime.transport.weights import patch
from hetrl_runtime.transport.weights.regions import Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The payload that updates a reader's base to the newest version."""

    base_sha256: bytes
    """Empty: it needs no base."""

    data: bytes


class Ways:
    """The ways to one version: from each of those before it, and from nothing."""

    def __init__(
        self, newest: Bytes, links: Sequence["Future[bytes]"], maker: ThreadPoolExecutor
    ) -> None:
        self._newest = newest
        self._links = links
        self._maker = maker
        self._lock = threading.Lock()
        self._payloads: dict[bytes, Future[Payload]] = {}

    def payload(self, base_sha256: bytes) -> Payload:
        """Return what a reader with those weights needs; waits where it is being made."""
        # The links were given to the same thread before.
        links = [each.result() for each in self._links]
        bases = [patch.base_of(each) for each in links]
        way = links[bases.index(base_sha256) :] if base_sha256 in bases else []
        if not way or sum(map(len, way)) > len(self._newest):
            base_sha256, way = b"", []
        with self._lock:
            if base_sha256 not in self._payloads:
                make = partial(self._make, base_sha256, way)
                self._payloads[base_sha256] = self._maker.submit(make)
        return self._payloads[base_sha256].result()

    def _make(self, base_sha256: bytes, way: list[bytes]) -> Payload:
        return Payload(base_sha256=base_sha256, data=patch.join(way or [patch.make(self._newest)]))


class Patches:
    """The patches of recent versions; callers serialize calls."""

    def __init__(self) -> None:
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="weights-patches")
        self._newest: Bytes | None = None
        self._links: deque[Future[bytes]] = deque()
        self._ways: Ways | None = None
        self._is_wanted = False

    def add(self, data: Bytes) -> None:
        """Take a new version in."""
        before, self._newest, self._ways = self._newest, data, None
        if self._is_wanted and before is not None:
            self._links.append(self._maker.submit(partial(patch.make, data, base=before)))
            self._drop_long_ways(len(data))

    def ways(self) -> Ways:
        """Return the ways to the newest version; there must be one."""
        self._is_wanted = True
        assert self._newest is not None
        if self._ways is None:
            self._ways = Ways(self._newest, tuple(self._links), self._maker)
        return self._ways

    def close(self) -> None:
        """Drop what is not made yet."""
        self._maker.shutdown(cancel_futures=True)

    def _drop_long_ways(self, whole_bytes: int) -> None:
        """Forget links from which on the way is longer than the weights themselves."""
        left_bytes = whole_bytes
        for number, link in enumerate(reversed(self._links)):
            left_bytes -= len(link.result()) if link.done() else 0
            if left_bytes < 0:
                self._links = deque(islice(self._links, len(self._links) - number, None))
                return
