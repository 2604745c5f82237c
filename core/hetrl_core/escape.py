"""Escaping of text from others: conditions, logs, names, responses and messages of programs.

A newline in such a text would forge a line of a log, an escape sequence would act on a terminal,
and a character that changes the direction of text would hide what follows.
"""

import logging
from typing import Any

MAX_LINE_CHARS = 200
_CUT = "..."


def one_line(text: object, *, most: int = MAX_LINE_CHARS) -> str:
    """Return text on one line of at most so many characters, control characters escaped."""
    line = escaped(str(text)[: most + 1])
    return line if len(line) <= most else line[: most - len(_CUT)] + _CUT


def escaped(text: str, *, keep: str = "") -> str:
    """Return text with control characters escaped, but for those to keep; by default on one line.

    The result cannot be told from a text with these backslashes in it: it is for people.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else repr(each)[1:-1] for each in text
    )


class OneLineFormatter(logging.Formatter):
    """A formatter whose records are one line each; lines of a traceback are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the base's name
        """Return a record's line."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  # the base's name
        """Return a traceback; a message in it cannot pass for a record."""
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"    {escaped(each)}" for each in lines)
