"""Escaping of text from others: conditions, logs, names, responses and messages of programs.

A newline in such a text would forge a line of a log, an escape sequence would act on a terminal,
and a character that changes the direction of text would hide what follows.
"""

MAX_LINE_CHARS = 200
_CUT = "..."


def one_line(text: object, *, most: int = MAX_LINE_CHARS) -> str:
    """Return text on one line of at most so many characters, control characters escaped."""
    line = escaped(str(text)[: most + 1])
    return line if len(line) <= most else line[: most - len(_CUT)] + _CUT


def escaped(text: str, *, keep: str = "") -> str:
    """Return text with control characters escaped, but for those to keep; by default on one line.

    A text with these backslashes in it gives the same result: it is for people.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else repr(each)[1:-1] for each in text
    )


def indented(traceback: str) -> str:
    """Return a traceback for a log; indented, so that no message in it passes for a record."""
    return "\n".join(f"    {escaped(each)}" for each in traceback.split("\n"))
