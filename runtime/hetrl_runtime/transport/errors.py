"""Errors of clients, by what the process must do.

TransportError
├── Refused       stop: another job's, not allowed, or impossible; trying again is useless
├── Unreachable   stop: the peer did not answer within the deadline
└── RunEnded      stop cleanly: the run is over; carries how it ended
"""

from hetrl_runtime.wire.values import Ending


class TransportError(Exception):
    """Something that a process cannot mend by waiting longer."""


def ending_of(failures: "ExceptionGroup[Exception]") -> Ending:
    """Return how the run ended, or raise the failure that took a process's other tasks down."""
    first, *_ = leaves = _leaves(failures)
    for failure in leaves:
        if isinstance(failure, RunEnded):
            return failure.ending
    raise first from None


def _leaves(failures: "ExceptionGroup[Exception]") -> list[Exception]:
    return [
        leaf
        for each in failures.exceptions
        for leaf in (_leaves(each) if isinstance(each, ExceptionGroup) else [each])
    ]


class Refused(TransportError):  # noqa: N818  # names say what to do
    """The peer will not have us; the message says why."""


class Unreachable(TransportError):  # noqa: N818
    """The peer did not answer within the deadline."""


class RunEnded(TransportError):  # noqa: N818
    """The run is over."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(f"the run ended: {ending.reason}: {ending.message}")
        self.ending = ending
