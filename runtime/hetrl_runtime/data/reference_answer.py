"""The reference answer inside a worked solution."""

MARKER = "####"


def target(answer: str) -> str:
    r"""Return what stands after the last ``####``, as in GSM8K; the whole text without one.

    >>> target("She sells 9 eggs.\n#### 18")
    '18'
    """
    return answer.rpartition(MARKER)[2].strip()
