"""Logging of the runtime's processes: one line an event, to standard error.

A line is ``2026-01-31T12:00:00.123Z INFO coordinator.run: epoch began: epoch=2 version=7``. Control
characters are escaped, so that no text of others can forge one.
"""

import logging
import sys
import time
from typing import Any

from hetrl_core.escape import escaped, indented

_PACKAGE = "hetrl_runtime."


def configure(level: int = logging.INFO) -> None:
    """Send this process's log to standard error; once, before anything is logged."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = _Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(where)s: %(message)s")
    formatter.datefmt = "%Y-%m-%dT%H:%M:%S"
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler], force=True)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        record.where = record.name.removeprefix(_PACKAGE)
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the base's name
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  # the base's name
        return indented(super().formatException(ei))
