"""The operator's log: one line a record, whatever objects of users say."""

import logging
from typing import Any

from hetrl_core.escape import escaped, indented

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def configure(level: str) -> None:
    """Send this process's log to standard error; once, before anything is logged."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter(_FORMAT))
    logging.basicConfig(level=level, handlers=[handler])


class OneLineFormatter(logging.Formatter):
    """A formatter that escapes control characters, and indents lines of a traceback."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the base's name
        """Return a record's line."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  # the base's name
        """Return a traceback."""
        return indented(super().formatException(ei))
