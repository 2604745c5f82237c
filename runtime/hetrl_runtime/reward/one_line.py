"""Text of reward code in one line, safe to log.

The code is not trusted: a newline in its text would forge a line of the log, an escape sequence
would act on a terminal, and a long text would carry away what the code has read.
"""

MAX_CHARACTERS = 200
_CUT = "..."


def one_line(text: object) -> str:
    """Return text on one line of at most 200 characters, control characters escaped."""
    line = "".join(map(_shown, str(text)[: MAX_CHARACTERS + 1]))
    return line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - len(_CUT)] + _CUT


def described(error: BaseException) -> str:
    """Return the class and the message of an exception, cut short but not yet escaped."""
    try:
        message = str(error)
    except BaseException:  # The code may raise an exception of its own, which raises in turn.
        message = "its message cannot be read"
    return f"{type(error).__name__}: {message}"[: MAX_CHARACTERS + 1]


def _shown(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]
