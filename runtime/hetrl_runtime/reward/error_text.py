"""Text of the errors of reward code, which is not trusted: short, and still to be escaped."""

from hetrl_core.escape import MAX_LINE_CHARS


def described(error: BaseException) -> str:
    """Return the class and the message of an exception, cut short but not yet escaped."""
    try:
        message = str(error)
    except BaseException:  # The code may raise an exception of its own, which raises in turn.
        message = "its message cannot be read"
    return f"{type(error).__name__}: {message}"[: MAX_LINE_CHARS + 1]
