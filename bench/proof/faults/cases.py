"""Faults of the operator during one job's life, one case per life."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from e2e.faults.fault import (
    KILLS,
    ON_REQUESTS,
    ON_WATCHES,
    Category,
    Fault,
    Script,
    everywhere,
    once,
)

_REQUESTS = frozenset({Category.WRITE, Category.LIST, Category.READ})
_WATCHES = frozenset({Category.WATCH})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One disturbed life."""

    fault: Fault
    write: int | None = None
    """The write that fails; None: every request of the life."""

    @property
    def name(self) -> str:
        number = "everywhere" if self.write is None else f"{self.write:03}"
        return f"{self.fault.name.lower()}-{number}"

    @property
    def begins_anew(self) -> bool:
        """Whether the operator starts under the fault, with its lists and watches."""
        return self.write is None

    def script(self) -> Script:
        if self.write is not None:
            return once(self.fault, category=Category.WRITE, number=self.write)
        return everywhere(
            self.fault, categories=_WATCHES if self.fault in ON_WATCHES else _REQUESTS
        )


def cases(num_writes: int) -> Iterator[Case]:
    """Yield every case of a life of so many writes, those that find most first."""
    for fault in (*ON_WATCHES, *ON_REQUESTS):
        yield Case(fault=fault)
    for fault in KILLS:
        for number in range(1, num_writes + 1):
            yield Case(fault=fault, write=number)
