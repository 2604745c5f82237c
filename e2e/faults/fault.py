"""Kinds of faults and the requests that they apply to; the proxy injects them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass


class Category(enum.StrEnum):
    """What a request does."""

    WRITE = "write"
    READ = "read"
    LIST = "list"
    WATCH = "watch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request of the operator, before it is answered."""

    number: int
    """Counted from 1 within its category."""

    category: Category
    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.category} {self.number}: {self.method} {self.path}"


class Fault(enum.StrEnum):
    """What happens to one request."""

    KILL_BEFORE = "the operator is killed before the API server sees it"
    KILL_AFTER = "the operator is killed before it sees the answer"
    KILL_AND_STALE = "the operator is killed after it, and restarts on lists that are older"

    CONFLICT = "409, nothing is done"
    GONE = "410, nothing is done"
    THROTTLED = "429 with Retry-After, nothing is done"
    ERROR_BEFORE = "500, nothing is done"
    ERROR_AFTER = "500, though it is done"
    DROP_BEFORE = "the connection is dropped, nothing is done"
    DROP_AFTER = "the connection is dropped, though it is done"
    EXPIRED = "401, the token has expired and there is a new one"

    WATCH_GONE = "the watch ends with 410"
    WATCH_ERROR = "the watch ends with an error of 500"
    WATCH_CUT = "the watch is cut after its first event"
    WATCH_SILENT = "the watch stays open and says nothing more"
    EVENTS_LOST = "three events are lost, then the watch ends with 410"
    EVENTS_REPEATED = "every event comes twice"


KILLS = (Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.KILL_AND_STALE)
ON_REQUESTS = (
    Fault.CONFLICT,
    Fault.GONE,
    Fault.THROTTLED,
    Fault.ERROR_BEFORE,
    Fault.ERROR_AFTER,
    Fault.DROP_BEFORE,
    Fault.DROP_AFTER,
    Fault.EXPIRED,
)
ON_WATCHES = (
    Fault.WATCH_GONE,
    Fault.WATCH_ERROR,
    Fault.WATCH_CUT,
    Fault.WATCH_SILENT,
    Fault.EVENTS_LOST,
    Fault.EVENTS_REPEATED,
)

Script = Callable[[Call], Fault | None]
"""Returns the fault of a request; called once for each request, in order of arrival."""


def nothing(_: Call) -> None:
    """Let every request through."""


def once(fault: Fault, *, category: Category, number: int) -> Script:
    """Inject a fault into one request."""

    def script(call: Call) -> Fault | None:
        hit = (call.category, call.number) == (category, number)
        return fault if hit else None

    return script


MOST_AT_START = 2
"""How often a fault hits what an operator requests while it starts: some end it, and then it asks
all of that again."""


def everywhere(fault: Fault, *, categories: frozenset[Category]) -> Script:
    """Inject a fault into every request of these categories; a repeated request gets through.

    Otherwise nothing would ever end.
    """
    asked: Counter[tuple[str, str]] = Counter()

    def script(call: Call) -> Fault | None:
        if call.category not in categories:
            return None
        target = (call.method, call.path)
        asked[target] += 1
        if call.category is Category.WRITE:
            return fault if asked[target] % 2 else None
        return fault if asked[target] <= MOST_AT_START else None

    return script
