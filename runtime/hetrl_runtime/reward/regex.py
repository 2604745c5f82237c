"""The ``regex`` verifier: whether a response has a form, and says the reference answer in it."""

import re
from functools import cache

from hetrl_runtime.data.reference_answer import target


def score(response: str, answer: str, *, pattern: str) -> float:
    r"""Return 1.0 where the pattern is found in a response, else 0.0.

    Where the pattern has a group named ``answer``, what it found last must equal the reference,
    but for white space around both.

    >>> score("<answer> 18 </answer>", "#### 18", pattern=r"<answer>(?P<answer>.*?)</answer>")
    1.0
    """
    expression = _compiled(pattern)
    if "answer" not in expression.groupindex:
        return float(expression.search(response) is not None)
    given = [found["answer"] for found in expression.finditer(response)]
    return float(bool(given) and (given[-1] or "").strip() == target(answer))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
